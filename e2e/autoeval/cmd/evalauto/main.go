// Command evalauto prints how well the model "auto" is chosen for the labelled prompts: make eval-auto. Arguments are the half, and "classifier" to have the
// local classifier judge the prompts, too.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"

	"bardo.money/gateway/e2e/autoeval"
	"bardo.money/gateway/e2e/classifyeval"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// withClassifier is the argument that asks for the classifier.
const withClassifier = "classifier"

func run(ctx context.Context, args []string) error {
	half, judge := autoeval.Test, autoeval.Judge(nil)
	if slices.Contains(args, withClassifier) {
		by, closeModel, err := classifyeval.Judge(ctx, ".")
		if err != nil {
			return err
		}
		defer closeModel()
		judge = by
	}
	if i := slices.IndexFunc(args, func(a string) bool { return a != withClassifier }); i >= 0 {
		half = args[i]
	}
	measured, err := autoeval.Measure(half, judge)
	if err != nil {
		return err
	}
	return autoeval.Write(os.Stdout, half, measured)
}
