// Command evalclassifier measures the classifier of prompts: make eval-classifier. With the argument prototypes it makes its prototypes: make prototypes.
// It runs in the root of the repository.
package main

import (
	"context"
	"fmt"
	"os"

	"bardo.money/gateway/e2e/classifyeval"
)

func main() {
	run := evaluate
	if len(os.Args) > 1 && os.Args[1] == "prototypes" {
		run = makePrototypes
	}
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func makePrototypes(ctx context.Context) error {
	b, err := classifyeval.Prototypes(ctx, ".")
	if err != nil {
		return err
	}
	return os.WriteFile("policy/classify/prototypes.bin", b, 0o600)
}

func evaluate(ctx context.Context) error {
	report, err := classifyeval.Evaluate(ctx, ".")
	if err != nil {
		return err
	}
	return report.Write(os.Stdout)
}
