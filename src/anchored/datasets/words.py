"""Words to numbers: a vocabulary of the most frequent words, and texts as rows of numbers.

A text becomes words as follows: it is converted to lower case; HTML line breaks and the characters
``!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~`` count as spaces; what stands between spaces is a word.
Apostrophes stay, so "nelson's" is one word. This is the rule of Keras, except for line breaks: in
Keras, they leave the word "br" behind.
"""

import collections
import dataclasses
import functools
import re
from collections.abc import Iterable

import numpy as np

from anchored.errors import bad_value

PADDING = 0  # fills up short texts
UNKNOWN = 1  # stands for every word that is not in the vocabulary
_FIRST = 2  # number of the most frequent word

_BREAK = re.compile(r"<br\s*/?>")
_WORD = re.compile(r"[^\s!\"#$%&()*+,\-./:;<=>?@\[\\\]^_`{|}~]+")


def split_words(document: str) -> list[str]:
    """The words of a text, in lower case and without punctuation."""
    return _WORD.findall(_BREAK.sub(" ", document.lower()))


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """The words that have a number, the most frequent first.

    Number 0 is padding, 1 any unknown word, and ``words[i]`` has number ``i + 2``.
    """

    words: tuple[str, ...]

    @classmethod
    def fit(cls, documents: Iterable[str], size: int = 6000) -> "Vocabulary":
        """The most frequent words of ``documents``, which should be the training texts.

        ``size`` counts all numbers, including padding and the unknown word, so an embedding needs
        ``size`` rows. Among equally frequent words, those first in the alphabet are chosen.
        """
        if size <= _FIRST:
            raise bad_value("size", size, f"more than {_FIRST}: padding, unknown and some words")
        counts = collections.Counter()
        for document in documents:
            counts.update(split_words(document))
        ranked = sorted(counts, key=lambda word: (-counts[word], word))
        return cls(tuple(ranked[: size - _FIRST]))

    @property
    def size(self) -> int:
        """How many numbers are in use: one for each word, one for padding, one for unknown
        words.
        """
        return len(self.words) + _FIRST

    @property
    def numbers(self) -> np.ndarray:
        """The numbers of ``words``, the most frequent first: 2 to ``size - 1``."""
        return np.arange(_FIRST, self.size, dtype=np.int32)

    def encode(self, documents: Iterable[str], length: int = 200) -> np.ndarray:
        """Numbers of the last ``length`` words of each text, int32 [row, length].

        Short texts are padded in front, so that the end of a text is the end of its row.
        """
        if length < 1:
            raise bad_value("length", length, "at least 1")
        number = self._number_of.get
        rows = []
        for document in documents:
            row = np.full(length, PADDING, np.int32)
            words = split_words(document)[-length:]
            row[length - len(words) :] = [number(word, UNKNOWN) for word in words]
            rows.append(row)
        return np.stack(rows) if rows else np.empty((0, length), np.int32)

    def decode(self, rows: np.ndarray) -> list[str]:
        """The words of each row [row, length], without padding; unknown words are ``...``."""
        shown = np.array(["", "...", *self.words], object)
        return [" ".join(shown[row[row != PADDING]]) for row in np.asarray(rows)]

    @functools.cached_property
    def _number_of(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.words, _FIRST)}
