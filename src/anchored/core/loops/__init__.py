"""For training loops of your own: penalties, anchors, and predictives of members."""
