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
	unknown := func(call, amount int64, from, to int) porcupine.Operation {
		return porcupine.Operation{ClientId: 2, Call: call, Return: noReturn, Input: move{from: from, to: to, amount: amount}, Output: told{unknown: true}}
	}
	first := moved(0, 0, 10, 30, 70, 130, true)
	tests := map[string]struct {
		more []porcupine.Operation
		want bool
	}{
		"read after":               {[]porcupine.Operation{read(1, 20, 30, 70, 130, 100, 100)}, true},
		"read beside, before":      {[]porcupine.Operation{read(1, 5, 30, 100, 100, 100, 100)}, true},
		"read of the past":         {[]porcupine.Operation{read(1, 20, 30, 100, 100, 100, 100)}, false},
		"half of it":               {[]porcupine.Operation{read(1, 5, 30, 70, 100, 100, 100)}, false},
		"charged twice":            {[]porcupine.Operation{read(1, 20, 30, 40, 160, 100, 100)}, false},
		"refused although it fits": {[]porcupine.Operation{moved(1, 20, 30, 70, 0, 0, false)}, false},
		"refused":                  {[]porcupine.Operation{moved(1, 20, 30, 71, 0, 0, false)}, true},
		"below zero":               {[]porcupine.Operation{moved(1, 20, 30, 71, -1, 201, true)}, false},
		"another balance":          {[]porcupine.Operation{moved(1, 20, 30, 10, 61, 140, true)}, false},
		"unknown, never applied":   {[]porcupine.Operation{unknown(20, 50, 0, 1), read(1, 40, 50, 70, 130, 100, 100)}, true},
		"unknown, applied late":    {[]porcupine.Operation{unknown(20, 50, 0, 1), read(1, 40, 50, 70, 130, 100, 100), read(1, 60, 70, 20, 180, 100, 100)}, true},
		"unknown, applied early":   {[]porcupine.Operation{unknown(20, 50, 0, 1), read(1, 5, 15, 20, 180, 100, 100)}, false},
		"unknown, half of it":      {[]porcupine.Operation{unknown(20, 50, 0, 1), read(1, 40, 50, 20, 130, 100, 100)}, false},
		"unknown, applied twice":   {[]porcupine.Operation{unknown(20, 30, 0, 1), read(1, 40, 50, 10, 190, 100, 100)}, false},
		"unknown, taken back":      {[]porcupine.Operation{unknown(20, 30, 0, 1), read(1, 40, 50, 40, 160, 100, 100), read(1, 60, 70, 70, 130, 100, 100)}, false},
		"unknown, does not fit":    {[]porcupine.Operation{unknown(20, 90, 0, 1), read(1, 40, 50, -20, 220, 100, 100)}, false},
		"unknown deposit":          {[]porcupine.Operation{unknown(20, 90, cash, 1), read(1, 40, 50, 70, 220, 100, 100)}, true},
		"unknown withdrawal":       {[]porcupine.Operation{unknown(20, 60, 0, cash), read(1, 40, 50, 10, 130, 100, 100)}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := porcupine.CheckOperations(bankModel, append([]porcupine.Operation{first}, tt.more...)); got != tt.want {
				t.Errorf("linearizable: %v, want %v", got, tt.want)
			}
		})
	}
}
