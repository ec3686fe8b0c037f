// Command evalinjection prints recall and precision of the detection of injected instructions, by kind of text, with the default threshold and the local model
// that `make models` installs; with the argument misses, also every text that is judged wrongly; with tuning, of the other part of the set.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"bardo.money/gateway/e2e/injectioneval"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	half := injectioneval.Test
	if slices.Contains(args, injectioneval.Tuning) {
		half = injectioneval.Tuning
	}
	texts, err := injectioneval.Texts(half)
	if err != nil {
		return err
	}
	host, err := injectioneval.OpenModels(".tools/models")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, host.Close()) }()
	if len(args) > 1 && args[0] == "files" {
		return injectioneval.Files(ctx, host.Classifier(), os.Stdout, args[1:]...)
	}
	out, err := injectioneval.Measure(ctx, host.Classifier(), texts)
	if err != nil {
		return err
	}
	return injectioneval.Write(os.Stdout, out, slices.Contains(args, "misses"))
}
