package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"bardo.money/gateway/extproc/hint"
	"bardo.money/gateway/internal/mdtest"
)

// TestHelpGroupsEveryCommandByPurpose: each command is in a group of `bardo help`, and each group's example is a command.
func TestHelpGroupsEveryCommandByPurpose(t *testing.T) {
	c := root()
	for _, sub := range c.Commands() {
		if sub.GroupID == "" {
			t.Errorf("%s is in no group", sub.CommandPath())
		}
	}
	for _, p := range purposes {
		checkExample(t, p.title, p.example)
		for _, name := range p.commands {
			if found, _, err := c.Find([]string{name}); name != "help" && name != "completion" && (err != nil || found.Name() != name) {
				t.Errorf("group %s names %s: %v", p.id, name, err)
			}
		}
	}
}

// TestEachCommandHasExamplesThatItTakes: they parse.
func TestEachCommandHasExamplesThatItTakes(t *testing.T) {
	commands := 0
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			commands++
			if sub.Example == "" {
				t.Errorf("%s has no example", sub.CommandPath())
			}
			for line := range strings.Lines(sub.Example) {
				if !strings.HasPrefix(line, "  bardo ") {
					t.Errorf("%s: the example %q is not indented as those of other commands", sub.CommandPath(), line)
				}
				checkExample(t, sub.CommandPath(), line)
			}
			visit(sub)
		}
	}
	visit(root())
	if commands < 25 {
		t.Errorf("found %d commands", commands)
	}
}

func checkExample(t *testing.T, where, line string) {
	t.Helper()
	found, err := mdtest.Commands(t, strings.TrimSpace(line))
	if err != nil || len(found) != 1 || found[0][0] != "bardo" {
		t.Errorf("%s: %q is not one command of bardo: %v", where, line, err)
		return
	}
	if err := checkBardo(found[0][1:]); err != nil {
		t.Errorf("%s: %s: %v", where, line, err)
	}
}

// TestRareFlagsOfRouteAreShownOnRequest: the help of route shows the common flags, and with --help-all all of them; hidden flags work.
func TestRareFlagsOfRouteAreShownOnRequest(t *testing.T) {
	help := func(args ...string) string {
		var out strings.Builder
		c := root()
		c.SetArgs(append([]string{"route"}, args...))
		c.SetOut(&out)
		if err := c.Execute(); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	short, long := help("--help"), help("--help-all")
	if strings.Contains(short, "--dali-step") || !strings.Contains(short, "--subsystem") || !strings.Contains(short, "--help-all") {
		t.Errorf("the help shows\n%s", short)
	}
	for _, key := range hint.Keys() {
		if name := "--" + strings.ReplaceAll(key, "_", "-"); !strings.Contains(long, name+" ") && !strings.Contains(long, name+"\n") {
			t.Errorf("--help-all does not show %s", name)
		}
	}
	if err := checkBardo([]string{"route", "--dali-step", "3"}); err != nil {
		t.Errorf("a flag that is not shown: %v", err)
	}
}

// TestEachCommandSaysWhichArgumentsItTakes: cobra's own error does not name the command.
func TestEachCommandSaysWhichArgumentsItTakes(t *testing.T) {
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			visit(sub)
			if !sub.Runnable() || sub.Args == nil || sub.Name() == "help" { // the argument of help is a command
				continue
			}
			for _, args := range [][]string{nil, {"a", "b", "c"}} {
				if err := sub.Args(sub, args); err != nil && !strings.HasPrefix(err.Error(), sub.CommandPath()+" ") {
					t.Errorf("%s with %d arguments: %v", sub.CommandPath(), len(args), err)
				}
			}
		}
	}
	visit(root())
}
