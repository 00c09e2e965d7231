// Command peers measures Quorate, comparable limiters, and the minimal cost of each path, in
// interleaved rounds of one run. It writes the tables as Markdown and JSON and the charts as SVG.
//
//	go run ./cmd/peers -quick
//	go run ./cmd/peers -only 'hot|keyed' -out ../docs/performance
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"

	"github.com/quorate/quorate/bench/inprocess"
	"github.com/quorate/quorate/bench/process"
	"github.com/quorate/quorate/bench/server"
	"github.com/quorate/quorate/bench/suite"
)

func main() {
	played, err := process.Play()
	if !played {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		context.AfterFunc(ctx, stop) // a second signal kills the process
		err = run(ctx)
		stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	quick := flag.Bool("quick", false, "few and short rounds: three minutes in all")
	only := flag.String("only", "", "regular `expression`: run only groups whose name it matches")
	out := flag.String("out", "", "`directory` for results.md, results.json and the charts; without it the tables are printed")
	keys := flag.Int("keys", 1_000_000, "`number` of keys where there are many")
	profiles := flag.String("profiles", "", "existing `directory` for profiles of processor time and allocations of the servers, made after the rounds")
	list := flag.Bool("list", false, "list the groups")
	flag.Parse()
	match, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	if flag.NArg() > 0 {
		return fmt.Errorf("%q: no arguments are taken", flag.Args())
	}
	defer process.Cleanup()
	var tables []suite.Table
	for _, g := range append(inprocess.Groups(*keys), server.Groups()...) {
		if !match.MatchString(g.Name) {
			continue
		}
		if *list {
			fmt.Printf("%-16s %s\n", g.Name, g.Title)
			continue
		}
		t, err := suite.Run(ctx, g, suite.Options{Quick: *quick, Progress: os.Stderr, Profiles: *profiles})
		if err != nil {
			return err
		}
		tables = append(tables, t)
	}
	if *list {
		return nil
	}
	if len(tables) == 0 {
		return errors.New("-only: no group has such a name; see -list")
	}
	r := suite.NewResults(tables, *quick)
	if *out == "" {
		r.WriteMarkdown(os.Stdout)
		return nil
	}
	return r.Write(*out)
}
