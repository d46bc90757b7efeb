"""Data sets: the paper's toys, and tables, images and texts from a folder or the web."""

from anchored.datasets.images import Images as Images
from anchored.datasets.images import load_images as load_images
from anchored.datasets.real import load_real as load_real
from anchored.datasets.real import split_real as split_real
from anchored.datasets.registry import DataSet as DataSet
from anchored.datasets.registry import RealTable as RealTable
from anchored.datasets.registry import describe as describe
from anchored.datasets.texts import Texts as Texts
from anchored.datasets.texts import load_texts as load_texts
from anchored.datasets.toy import noisy_sine as noisy_sine
from anchored.datasets.toy import random_points as random_points
from anchored.datasets.toy import six_points as six_points
from anchored.datasets.toy import two_blobs as two_blobs
from anchored.datasets.uci import Split as Split
from anchored.datasets.uci import load_paper_split as load_paper_split
from anchored.datasets.uci import load_table as load_table
from anchored.datasets.uci import load_uci as load_uci
from anchored.datasets.uci import load_uci_split as load_uci_split
from anchored.datasets.uci import standard_split as standard_split
from anchored.datasets.words import Vocabulary as Vocabulary
