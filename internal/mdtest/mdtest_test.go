package mdtest

import (
	"fmt"
	"testing"
)

const pageText = "Use `bardo watch` and `go`.\n\n```console\n$ bardo keys create \\\n    --name 'a b' | grep x\nid  1\n$ K=v curl \"$U/x\" > out &\n```\n" +
	"```yaml\na: 1\n```\n"

func TestWhatIsTypedIsTakenOut(t *testing.T) {
	blocks := Blocks("p.md", pageText)
	if len(blocks) != 2 || blocks[0].String() != "p.md:3" || blocks[1].Info != "yaml" || blocks[1].Text != "a: 1\n" {
		t.Fatalf("%+v", blocks)
	}
	have, err := Commands(t, "U=http://h\n"+blocks[0].Script())
	seen := map[string]bool{}
	for _, c := range have {
		seen[fmt.Sprintf("%q", c)] = true
	}
	if err != nil || len(have) != 3 || !seen[`["bardo" "keys" "create" "--name" "a b"]`] || !seen[`["grep" "x"]`] || !seen[`["curl" "http://h/x"]`] {
		t.Errorf("%q, %v", have, err)
	}
	if spans := Spans(pageText); len(spans) != 1 || spans[0] != "bardo watch" {
		t.Errorf("%q", spans)
	}
}

func TestAScriptThatBashDoesNotTakeIsAnError(t *testing.T) {
	if have, err := Commands(t, "bardo 'open\n"); err == nil {
		t.Errorf("%q", have)
	}
}
