package systemtest

import (
	"testing"

	"github.com/anishathalye/porcupine"
)

// TestBankModel checks that the model rejects histories that must not happen. Without it, a model
// that accepts everything would make the bank tests pass.
func TestBankModel(t *testing.T) {
	moved := func(id int, call, ret, amount, from, to int64, applied bool) porcupine.Operation {
		return porcupine.Operation{ClientId: id, Call: call, Return: ret, Input: move{from: 0, to: 1, amount: amount}, Output: told{applied: applied, from: from, to: to}}
	}
	read := func(id int, call, ret int64, all ...int64) porcupine.Operation {
		return porcupine.Operation{ClientId: id, Call: call, Return: ret, Input: move{}, Output: told{all: [perGroup]int64(all)}}
	}
	first := moved(0, 0, 10, 30, 70, 130, true)
	tests := map[string]struct {
		second porcupine.Operation
		want   bool
	}{
		"read after":               {read(1, 20, 30, 70, 130, 100, 100), true},
		"read beside, before":      {read(1, 5, 30, 100, 100, 100, 100), true},
		"read of the past":         {read(1, 20, 30, 100, 100, 100, 100), false},
		"half of it":               {read(1, 5, 30, 70, 100, 100, 100), false},
		"charged twice":            {read(1, 20, 30, 40, 160, 100, 100), false},
		"refused although it fits": {moved(1, 20, 30, 70, 0, 0, false), false},
		"refused":                  {moved(1, 20, 30, 71, 0, 0, false), true},
		"below zero":               {moved(1, 20, 30, 71, -1, 201, true), false},
		"another balance":          {moved(1, 20, 30, 10, 61, 140, true), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := porcupine.CheckOperations(bankModel, []porcupine.Operation{first, tt.second}); got != tt.want {
				t.Errorf("linearizable: %v, want %v", got, tt.want)
			}
		})
	}
}
