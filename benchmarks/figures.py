"""Writes the tables of figures anew that README.md and docs/training-with-forebay.md quote: nothing is measured."""

from benchmarks import guide, readme
from benchmarks.page_figures import MeasuredPages

if __name__ == "__main__":
    pages = MeasuredPages.read()
    readme.README.write_text(readme.rendered(readme.README.read_text(), pages))
    guide.GUIDE.write_text(guide.rendered(guide.GUIDE.read_text(), pages))
