package autoeval

import (
	"fmt"
	"os"
	"testing"
)

func TestTune(t *testing.T) {
	half := os.Getenv("HALF")
	ps, err := Prompts(half)
	if err != nil {
		t.Fatal(err)
	}
	for i := range Setups {
		out, err := Run(&Setups[i], ps)
		if err != nil {
			t.Fatal(err)
		}
		f := Sum(out, func(*Outcome) bool { return true })
		fmt.Printf("%s: easy %.3f hard %.3f saved %.3f\n", Setups[i].Name, f.EasyOnCheap, f.HardOnStrong, f.Saved())
		if os.Getenv("V") == "" {
			continue
		}
		for _, l := range Levels {
			for i := range out {
				o := &out[i]
				if o.Prompt.Level == l {
					fmt.Printf("%-8s %-10s %-10s %s %.2f %-8s %-28s %.3f %d/%d", l, o.Prompt.Kind, o.Task.Name, o.Prompt.Language, o.Task.Difficulty, o.Task.Quality, o.To.Model, o.Price, o.Task.Output, o.Prompt.Answer)
					for _, p := range o.Task.Points() {
						fmt.Printf(" %.6s:%.2f", p.What, p.Worth)
					}
					fmt.Println()
				}
			}
		}
		return
	}
}
