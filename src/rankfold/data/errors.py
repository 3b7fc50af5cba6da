"""What the readers of data files raise."""


class DataFileError(ValueError):
    r"""A data file whose content cannot be used; what it says begins with the name of the file.

    The line, row or column, and the remedy, are named where they are known. The readers raise nothing else
    for what a file holds, whoever made it. A file that cannot be opened or read is an OSError, which names
    the file as well.

    Examples
    --------
    >>> import io
    >>> from rankfold.data import DataFileError, read_triples
    >>> try:
    ...     read_triples(io.BytesIO(b"ann,Heat,5\nbob,Heat,five\n"))
    ... except DataFileError as error:
    ...     print(str(error)[:54])
    the stream, line 2: column '2' is not a number: 'five'
    """


class WrongColumnError(DataFileError):
    """A column of a file does not hold what it is taken for: perhaps another one does."""
