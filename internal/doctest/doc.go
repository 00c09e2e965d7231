// Package doctest checks the documents: every link leads to a file and a heading, every page can
// be reached from the front page, generated pages match their sources, and the tests that pages
// name exist.
//
// Pages are read as GitHub reads them (goldmark, with its tables), and anchors are made as
// GitHub makes them of headings.
package doctest
