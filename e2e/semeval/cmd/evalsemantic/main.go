// Command evalsemantic prints which pairs of questions the semantic cache takes for the same, by category: those of the test half; with the argument tuning,
// those of the other half, and with details every pair that is lost, too.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"bardo.money/gateway/e2e/semeval"
	"bardo.money/gateway/e2e/semeval/model"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	pairs, err := semeval.Pairs()
	if err != nil {
		return err
	}
	host, embedder, err := model.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, host.Close()) }()
	r, err := semeval.Measure(ctx, embedder, embedder.Threshold(), semeval.Half(pairs, !slices.Contains(args, "tuning")))
	if err != nil {
		return err
	}
	return r.Write(os.Stdout, slices.Contains(args, "details"))
}
