"""Networks written for one member: dense, convolutional and text."""

from anchored.networks._layers import ACTIVATIONS as ACTIVATIONS
from anchored.networks.cnn import ConvNet as ConvNet
from anchored.networks.mlp import MLP as MLP
from anchored.networks.text import TextCNN as TextCNN
