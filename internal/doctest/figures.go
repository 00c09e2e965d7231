package doctest

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// Files with measured figures. A page takes a figure from them by its name, in a comment behind
// the number: 1.33<!-- =grpc-unary/Quorate/x -->.
const (
	resultsFile  = "docs/performance/results.json"      // written by make bench-peers
	measuredFile = "docs/performance/measured.json"     // other runs, written by hand
	accuracyFile = "docs/development/accuracy-table.md" // written by make reach
)

// Figures reads all measured figures. A name of results.json is table/row/measure, with the measure
// x for the ratio to the table's reference; one of measured.json is run/name; one of the accuracy table
// is accuracy/scenario-nNODES-cCLUMP, the percent admitted short of the ideal, and accuracy-ppm/... the
// same per million.
func Figures(fsys fs.FS) (map[string]float64, error) {
	var results struct {
		Tables []struct {
			Name string
			Rows []struct {
				Name    string
				Figures map[string]struct{ Median float64 }
				Ratio   *struct{ Median float64 }
			}
		}
	}
	if err := readJSON(fsys, resultsFile, &results); err != nil {
		return nil, err
	}
	out := map[string]float64{}
	for _, t := range results.Tables {
		for _, r := range t.Rows {
			row := t.Name + "/" + r.Name + "/"
			for measure, f := range r.Figures {
				out[row+measure] = f.Median
			}
			if r.Ratio != nil {
				out[row+"x"] = r.Ratio.Median
			}
		}
	}
	var measured struct {
		Runs []struct {
			Name, Date, Machine, Topology, Command string
			Figures                                map[string]float64
		}
	}
	if err := readJSON(fsys, measuredFile, &measured); err != nil {
		return nil, err
	}
	for _, r := range measured.Runs {
		if r.Date == "" || r.Machine == "" || r.Topology == "" || r.Command == "" {
			return nil, fmt.Errorf("%s: run %q lacks its date, machine, topology or command", measuredFile, r.Name)
		}
		for name, f := range r.Figures {
			out[r.Name+"/"+name] = f
		}
	}
	table, err := fs.ReadFile(fsys, accuracyFile)
	if err != nil {
		return nil, err
	}
	scenario := ""
	for _, m := range accuracyRow.FindAllStringSubmatch(string(table), -1) {
		if m[1] != "" {
			scenario = m[1]
		}
		net, err := strconv.ParseFloat(m[4], 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", accuracyFile, scenario, err)
		}
		run := fmt.Sprintf("%s-n%s-c%s", scenario, m[2], m[3])
		out["accuracy/"+run] = 0 - net // which is never -0
		out["accuracy-ppm/"+run] = 0 - net*1e4
	}
	return out, nil
}

// accuracyRow matches a row of the accuracy table: its scenario where it differs from the row
// before, nodes, clump and net.
var accuracyRow = regexp.MustCompile(`(?m)^\| (?:\*\*([a-z0-9.-]+)\*\*[^|]*)? *\| (\d+) \| (\d+) \| ([+-]\d+\.\d+) \|`)

func readJSON(fsys fs.FS, name string, v any) error {
	data, err := fs.ReadFile(fsys, name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// figureMark matches a number in a page and the name of the figure that it shows.
var figureMark = regexp.MustCompile(`(\d[\d,]*(?:\.\d+)?)<!-- =([^>]+?) -->`)

// SetFigures returns a page with every marked number replaced by its figure, to as many digits as
// the page shows, and the number of marks.
func SetFigures(page string, figures map[string]float64) (string, int, error) {
	var err error
	count := 0
	out := figureMark.ReplaceAllStringFunc(page, func(s string) string {
		count++
		m := figureMark.FindStringSubmatch(s)
		value, ok := figures[m[2]]
		if !ok {
			err = fmt.Errorf("no figure %q in %s or %s", m[2], resultsFile, measuredFile)
			return s
		}
		return strings.Replace(s, m[1], roundLike(m[1], value), 1)
	})
	return out, count, err
}

// roundLike writes a value with as many decimals, or as many zeros at its end, as shown has.
func roundLike(shown string, value float64) string {
	if _, fraction, ok := strings.Cut(shown, "."); ok {
		return strconv.FormatFloat(value, 'f', len(fraction), 64)
	}
	digits := strings.ReplaceAll(shown, ",", "")
	unit := math.Pow10(len(digits) - len(strings.TrimRight(digits, "0")))
	if digits == "0" || math.Round(value/unit) == 0 {
		unit = 1
	}
	text := strconv.FormatFloat(math.Round(value/unit)*unit, 'f', 0, 64)
	for i := len(text) - 3; i > 0 && (len(text) > 4 || strings.Contains(shown, ",")); i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
