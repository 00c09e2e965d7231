package server

import "github.com/quorate/quorate/bench/suite"

// Groups are the tables of this package.
func Groups() []suite.Group { return nil }
