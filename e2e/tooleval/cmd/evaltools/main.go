// Command evaltools prints how often layer l4 keeps, or finds, the tool that a request needs, and what it saves: make eval-tools. With the argument misses, also the
// requests whose tool is not there.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"bardo.money/gateway/e2e/semeval/model"
	"bardo.money/gateway/e2e/tooleval"
)

func main() {
	if err := run(context.Background(), slices.Contains(os.Args[1:], "misses")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, misses bool) (err error) {
	tools, err := tooleval.Tools()
	if err != nil {
		return err
	}
	host, embedder, err := model.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, host.Close()) }()
	ways, err := tooleval.Measure(ctx, embedder, tools)
	if err != nil {
		return err
	}
	return tooleval.Write(os.Stdout, ways, len(tools), misses)
}
