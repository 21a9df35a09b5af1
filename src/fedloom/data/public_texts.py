"""Public texts: Shakespeare's plays by role, and AG News."""

from fedloom.data.entries import Copy, DatasetEntry
from fedloom.data.fetch import File
from fedloom.data.text import read_agnews, read_shakespeare

_NEWS = "https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv"
_NEWS_OPTIONS = ("vocabulary", "length")
_NEWS_TEST = File(
    "agnews/test.csv",
    f"{_NEWS}/test.csv",
    "521465c2428ed7f02f8d6db6ffdd4b5447c1c701962353eb2c40d548c3c85699",
)

TEXTS = (
    DatasetEntry(
        "shakespeare",
        "the 37 plays by role, to predict each next character",
        "public domain",
        "https://github.com/TheMITTech/shakespeare",
        (
            Copy(
                (
                    File(
                        "shakespeare/speeches.jsonl",
                        sha256="762f46d548f797bce7d4815c6072ed140edeb406a15c63d458acb98b60602d23",
                        advice="Make it from https://github.com/TheMITTech/shakespeare: "
                        "one JSON object a speech and line, with play, speaker and text.",
                    ),
                ),
                read_shakespeare,
                options=("length", "roles"),
            ),
        ),
    ),
    DatasetEntry(
        "agnews",
        "127600 news items of four topics, title and description",
        "for research, not for commerce",
        "http://groups.di.unipi.it/~gulli/AG_corpus_of_news_articles.html",
        (
            Copy(
                (
                    File(
                        "agnews/train.csv",
                        f"{_NEWS}/train.csv",
                        "76a0a2d2f92b286371fe4d4044640910a04a803fdd2538e0f3f29a5c6f6b672e",
                    ),
                    _NEWS_TEST,
                ),
                read_agnews,
                options=_NEWS_OPTIONS,
            ),
            Copy(
                (
                    File(
                        "agnews/train_subset.csv",
                        sha256="85faf8835fd482d5b55fa24887b2da009f34c7dc302a7c8e4846738fb91bccc6",
                    ),
                    _NEWS_TEST,
                ),
                read_agnews,
                "agnews (31k subset)",
                _NEWS_OPTIONS,
            ),
        ),
    ),
)
