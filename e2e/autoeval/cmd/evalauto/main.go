// Command evalauto prints how well the model "auto" is chosen for the labelled prompts: make eval-auto.
package main

import (
	"fmt"
	"os"

	"bardo.money/gateway/e2e/autoeval"
)

func main() {
	half := autoeval.Test
	if len(os.Args) > 1 {
		half = os.Args[1]
	}
	measured, err := autoeval.Measure(half)
	if err == nil {
		err = autoeval.Write(os.Stdout, half, measured)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
