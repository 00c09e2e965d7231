module github.com/quorate/quorate/bench

go 1.26.0

replace github.com/quorate/quorate => ../

require (
	golang.org/x/sys v0.48.0
	golang.org/x/time v0.16.0
)
