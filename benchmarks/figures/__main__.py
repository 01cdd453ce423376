"""`python -m benchmarks.figures`: see the package."""

from benchmarks.figures import readme, training_guide
from benchmarks.figures.measured_pages import MeasuredPages

if __name__ == "__main__":
    pages = MeasuredPages.read()
    readme.README.write_text(readme.rendered(readme.README.read_text(), pages))
    training_guide.GUIDE.write_text(training_guide.rendered(training_guide.GUIDE.read_text(), pages))
