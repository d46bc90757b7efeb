"""IMDb reviews with a small text network: good or bad, and texts that are no reviews."""

import numpy as np

from anchored.core.networks import TextCNN
from anchored.datasets import Vocabulary, load_texts, shifts
from anchored.paper.catalogue import CATALOGUE
from anchored.paper.tables.unfamiliar import Settings, Task
from anchored.paper.tables.unfamiliar_record import experiment

_LENGTH = 200
_SHOWN_WORDS = 12
GROUPS = {name: (name,) for name in ("reuters", "random 1", "random 2", "random 3")}
_EPOCHS = {"regularised": 3, "unconstrained": 2, "anchored": 2}
PAPER = Settings(n_seeds=5, epochs=_EPOCHS, batch_size=64, learning_rate=0.001, first_var=10.0)
PRESETS = CATALOGUE["table-imdb"].presets_of(PAPER)


def make_task(s: Settings, data_dir) -> Task:
    reviews, news = load_texts("imdb", data_dir), load_texts("reuters", data_dir)
    order = np.random.default_rng(0).permutation(len(reviews.train_x))[: s.n_train]
    texts = [reviews.train_x[i] for i in order]
    words = Vocabulary.fit(texts)
    checked = np.random.default_rng(1).permutation(len(reviews.test_x))[: s.n_test]
    x_test = words.encode([reviews.test_x[i] for i in checked], _LENGTH)
    shifted = {
        "reuters": words.encode(news.test_x[: s.n_test], _LENGTH),
        "random 1": shifts.random_words_1(1, min(len(x_test), 5_000), _LENGTH, words),
        "random 2": shifts.random_words_2(2, min(len(x_test), 5_000), _LENGTH, words),
        "random 3": shifts.random_words_3(3, min(len(x_test), 5_000), _LENGTH, words),
    }
    x = words.encode(texts, _LENGTH)
    examples = {
        name: " ".join(words.decode(tokens[:1])[0].split()[-_SHOWN_WORDS:])
        for name, tokens in {"train": x, **shifted}.items()
    }
    network = TextCNN(vocabulary=words.size)
    return Task(
        network, x, reviews.train_y[order], x_test, reviews.test_y[checked], shifted, examples
    )


EXPERIMENT = experiment("imdb", PRESETS, make_task, GROUPS, height=6.5)
