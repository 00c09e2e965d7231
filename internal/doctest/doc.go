// Package doctest holds the documents to what there is: every link leads to a file and a
// heading, every page is reached from the front page, the pages that are generated say what
// their sources say, and words are used as docs/vocabulary.md has them.
//
// Pages are read as GitHub reads them (goldmark, with its tables), and anchors are made as
// GitHub makes them of headings.
package doctest
