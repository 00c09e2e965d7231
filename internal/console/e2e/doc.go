// Package e2e drives the console of real nodes in Chromium: there is nothing in it but a
// test, and what node runs for it.
//
// It needs node 18 or later, npm and chromium, and skips without them, but not where
// CI=true. What npm has to bring is in package-lock.json; it is installed once in the
// user's cache directory, and nothing of it is in the binary.
//
// flows.mjs clicks through every flow and looks at every page: nothing that the
// Content-Security-Policy refuses, no error in the browser's console, no violation that
// axe finds in light and in dark, no page wider than 1280 or 390 pixels, everything
// reachable by keyboard. A page that is registered and not in its list fails the test.
//
// crowd.mjs looks at a node of 100,000 limits and 100,000 keys, and measures how long each page takes; the
// times are in the log of -v.
//
// A quick run checks each page once and the main flows. TEST_SPEED=full checks everything.
//
//	TEST_SPEED=full go test ./internal/console/e2e -v
//	CONSOLE_SHOTS=/some/dir go test ./internal/console/e2e   # screenshots of all pages
//	CONSOLE_PICTURES=../../../docs/images go test ./internal/console/e2e -run Pictures -count=1   # those of the docs
package e2e
