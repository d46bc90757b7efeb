"""Networks written for one member: dense, convolutional and text."""

from anchored.core.networks._layers import ACTIVATIONS as ACTIVATIONS
from anchored.core.networks.cnn import ConvNet as ConvNet
from anchored.core.networks.mlp import MLP as MLP
from anchored.core.networks.text import TextCNN as TextCNN
