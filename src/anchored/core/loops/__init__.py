"""For those who keep their own training loop: penalties, anchors, and predictives of members."""
