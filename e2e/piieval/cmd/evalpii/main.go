// Command evalpii prints recall and precision of the detectors of personal data, by type, on the test half of the labelled texts; with the
// argument tuning, on the other half; with misses, also every miss.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"

	"bardo.money/gateway/e2e/piieval"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	texts, err := piieval.Texts()
	if err != nil {
		return err
	}
	r, err := piieval.Measure(ctx, piieval.Half(texts, !slices.Contains(os.Args[1:], "tuning")))
	if err != nil {
		return err
	}
	return r.Write(os.Stdout, slices.Contains(os.Args[1:], "misses"))
}
