"""Texts become numbers by a rule that is written out here a second time, slowly."""

import collections
import time

import numpy as np
import pytest

from anchored.datasets import Vocabulary, load_texts
from anchored.datasets.words import PADDING, UNKNOWN, split_words

PUNCTUATION = '!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n'


def slow_words(document):
    """Keras' rule, character by character, with line breaks taken out first."""
    lower = document.lower().replace("<br />", " ").replace("<br>", " ")
    return "".join(" " if c in PUNCTUATION else c for c in lower).split()


DOCUMENTS = [
    "The best film.<br /><br />The BEST, bar none!",
    "Judd Nelson's work (1990s): 10/10; a so-called 'classic'",
    'back\\slash under_score {brace} [bracket] `tick` ~ ^ | $5 50% a@b.c #1 "q" = * + <i>x</i>',
    "Café naïve\n\ttab\u00a0space",
    "",
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=range(len(DOCUMENTS)))
def test_words_are_those_of_the_slow_rule(document):
    assert split_words(document) == slow_words(document)


def test_words_by_hand():
    words = split_words("It's GREAT!<br/>See it<BR>-twice")
    assert words == ["it's", "great", "see", "it", "twice"]


def test_the_most_frequent_words_win_and_ties_go_by_alphabet():
    vocabulary = Vocabulary.fit(["b a c", "C a", "c e d"], size=6)
    assert vocabulary.words == ("c", "a", "b", "d")
    assert vocabulary.size == 6
    assert vocabulary == Vocabulary.fit(["c e d", "b a c", "C a"], size=6)
    assert Vocabulary.fit(["a b"], size=100).size == 4  # there are no more words


@pytest.fixture
def vocabulary():
    return Vocabulary(("the", "film", "good"))


def test_short_texts_are_padded_in_front_and_long_ones_keep_their_end(vocabulary):
    rows = vocabulary.encode(["The good film", "", "Bad film the good the"], length=4)
    assert rows.dtype == np.int32
    assert rows.tolist() == [
        [PADDING, 2, 4, 3],
        [PADDING] * 4,
        [3, 2, 4, 2],
    ]
    assert vocabulary.encode(["bad"], length=1).tolist() == [[UNKNOWN]]
    assert vocabulary.encode([]).shape == (0, 200)


def test_numbers_go_back_to_words(vocabulary):
    documents = ["the good film", "", "good good"]
    assert vocabulary.decode(vocabulary.encode(documents, length=5)) == documents
    assert vocabulary.decode(vocabulary.encode(["the bad film"], length=5)) == ["the ... film"]


def test_every_word_has_a_number_of_its_own(vocabulary):
    assert vocabulary.numbers.tolist() == [2, 3, 4]
    assert vocabulary.decode(vocabulary.numbers[:, None]) == list(vocabulary.words)
    assert vocabulary.numbers.max() == vocabulary.size - 1


def test_bad_sizes_are_refused(vocabulary):
    with pytest.raises(ValueError, match=r"`size` must be more than 2.*got 2"):
        Vocabulary.fit(["a"], size=2)
    with pytest.raises(ValueError, match="`length` must be at least 1; got 0"):
        vocabulary.encode(["a"], length=0)


def test_a_vocabulary_cannot_be_changed(vocabulary):
    with pytest.raises(AttributeError):
        vocabulary.words = ()


@pytest.mark.slow
def test_the_reviews_are_encoded_quickly_and_as_in_the_paper(uci_folder):
    if not (uci_folder / "imdb.npz").is_file():
        pytest.skip("no imdb.npz in the folder")
    texts = load_texts("imdb", uci_folder)
    start = time.perf_counter()
    vocabulary = Vocabulary.fit(texts.train_x)
    rows = vocabulary.encode(texts.train_x + texts.test_x)
    assert time.perf_counter() - start < 30
    assert rows.shape == (50_000, 200)
    assert rows.max() == vocabulary.size - 1 == 5999
    counts = collections.Counter(word for text in texts.train_x for word in slow_words(text))
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    assert list(vocabulary.words) == ranked[:5998]
    shown = "computers towers braveheart threatened triangle detectives hangs firmly"
    assert set(shown.split()) <= set(vocabulary.words[-100:])  # the paper's Random 3 has them
