package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/adminapi"
	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/policy/ledger"
)

func feedbackCommand() *cobra.Command {
	var key string
	c := &cobra.Command{Use: "feedback", Short: "Show what callers said of answers, by task and regime", Args: cli.NoArgs}
	c.Flags().StringVar(&key, "key", "", "only of this key's requests, by its id")
	asJSON := cli.JSONFlag(c)
	settings.Flag(c)
	c.RunE = withBooks(func(c *cobra.Command, api *http.Client, _ []string) error {
		id, err := keyOrNone(key)
		if err != nil {
			return err
		}
		rows, err := adminapi.List[ledger.FeedbackRow](c.Context(), api, "/feedback?key="+url.QueryEscape(string(id)))
		if err != nil {
			return err
		}
		if !*asJSON {
			return cli.PrintTable(c.OutOrStdout(), []string{"TASK", "REGIME", "ANSWERS", "MEAN SCORE"}, feedbackCells(rows))
		}
		if rows == nil {
			rows = []ledger.FeedbackRow{}
		}
		return cli.PrintJSON(c, rows)
	})
	return c
}

func feedbackCells(rows []ledger.FeedbackRow) [][]string {
	cells := make([][]string, 0, len(rows))
	for _, r := range rows {
		cells = append(cells, []string{r.Task, r.Regime, strconv.FormatInt(r.Answers, 10), fmt.Sprintf("%.2f", r.Score)})
	}
	return cells
}
