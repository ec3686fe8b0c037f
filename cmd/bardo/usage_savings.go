package main

import (
	"encoding/csv"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/policy/ledger"
)

// savingsHeads are the columns of what the layers saved.
var savingsHeads = []string{"layer", "requests", "saved_tokens", "saved_usd"}

func savingsCells(r ledger.SavingRow) []string {
	return []string{r.Layer, strconv.FormatInt(r.Requests, 10), strconv.FormatInt(r.Tokens, 10), r.Amount.String()}
}

// showSavings prints what the layers saved. The format is known.
func showSavings(c *cobra.Command, format string, rows []ledger.SavingRow) error {
	switch format {
	case "json":
		if rows == nil {
			rows = []ledger.SavingRow{}
		}
		return cli.PrintJSON(c, rows)
	case "csv":
		records := [][]string{savingsHeads}
		for _, r := range rows {
			records = append(records, savingsCells(r))
		}
		return csv.NewWriter(c.OutOrStdout()).WriteAll(records)
	}
	cells := make([][]string, 0, len(rows)+1)
	total := ledger.SavingRow{Layer: "total"}
	for _, r := range rows {
		cells = append(cells, savingsCells(r))
		total.Tokens += r.Tokens
		total.Amount = total.Amount.Plus(r.Amount)
	}
	last := savingsCells(total)
	last[1] = "" // a request counts at each of its layers
	heads := make([]string, len(savingsHeads))
	for i, h := range savingsHeads {
		heads[i] = strings.ToUpper(strings.ReplaceAll(h, "_", " "))
	}
	return cli.PrintTable(c.OutOrStdout(), heads, append(cells, last))
}
