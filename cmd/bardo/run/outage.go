package run

import (
	"bardo.money/gateway/cmd/bardo/control"
	"bardo.money/gateway/extproc/api"
)

func (d *dataPath) ledgerState() control.Ledger {
	m := d.books.Unwritten().InMemory
	return control.Ledger{Unready: api.Unready(d.books), Charges: m.Charges, Micro: int64(m.Amount), Store: d.store}
}
