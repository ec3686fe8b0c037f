package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/cli"
)

// purpose is a group of commands in `bardo help`, with an example.
type purpose struct {
	id, title, example string
	commands           []string
}

// purposes are the groups, in order. Each command belongs to one of them.
var purposes = []purpose{
	{"run", "Run the gateway", "bardo up --port 8081", []string{"up", "extproc", "xds", "bootstrap"}},
	{"ask", "Models and routing", "bardo route --model auto --input-tokens 2000", []string{"models", "route", "plan", "replay", "e2ee"}},
	{"money", "Keys and money", "bardo keys create --name alice --balance-usd 5", []string{"keys", "projects", "owners", "balance", "deposit", "usage", "export", "audit", "payments", "pay", "wallet"}},
	{"look", "Inspect requests and providers", "bardo requests --status 5xx --since 2h", []string{"requests", "watch", "providers", "feedback", "governor", "attest", "prompts"}},
	{"operate", "Operate", "bardo doctor", []string{"doctor", "config", "notify", "version", "help", "completion"}},
}

// examples are those of commands without their own, by command path.
var examples = map[string]string{
	"bardo help":              "bardo help keys create",
	"bardo up":                "bardo up\nbardo up -c bardo.yaml --port 8081",
	"bardo extproc":           "bardo extproc -c bardo.yaml",
	"bardo xds":               "bardo xds -c bardo.yaml",
	"bardo bootstrap":         "bardo bootstrap -c bardo.yaml > envoy.json",
	"bardo notify":            "bardo notify test",
	"bardo notify test":       "bardo notify test\nbardo notify test -c bardo.yaml",
	"bardo config":            "bardo config check -c bardo.yaml\nbardo config reload",
	"bardo config check":      "bardo config check -c bardo.yaml",
	"bardo config print":      "bardo config print -c bardo.yaml",
	"bardo config status":     "bardo config status --json",
	"bardo config reload":     "bardo config reload",
	"bardo keys":              "bardo keys create --name alice\nbardo keys list",
	"bardo keys create":       "bardo keys create --name alice --balance-usd 5\nbardo keys create --name ci --tier free --limit-usd-day 1 --ip 10.0.0.0/8 --json",
	"bardo keys list":         "bardo keys list --json",
	"bardo keys update":       "bardo keys update k7Qm2xR9vB4c --rpm 60 --limit-usd-day 2",
	"bardo projects":          "bardo projects list",
	"bardo owners":            "bardo owners list",
	"bardo projects create":   "bardo projects create web --owner acme --limit-usd-month 200",
	"bardo projects update":   "bardo projects update web --limit-usd-day 20",
	"bardo projects list":     "bardo projects list",
	"bardo owners create":     "bardo owners create acme --limit-usd-month 1000",
	"bardo owners update":     "bardo owners update acme --name Acme",
	"bardo owners list":       "bardo owners list --json",
	"bardo keys rotate":       "bardo keys rotate k7Qm2xR9vB4c --overlap 48h",
	"bardo keys revoke":       "bardo keys revoke k7Qm2xR9vB4c",
	"bardo balance":           "bardo balance k7Qm2xR9vB4c",
	"bardo deposit":           "bardo deposit k7Qm2xR9vB4c --usd 20 --ref invoice-1042",
	"bardo usage":             "bardo usage --by day --since 7\nbardo usage --by project,model --csv\nbardo usage --by layer,golem --key k7Qm2xR9vB4c",
	"bardo export":            "bardo export requests --since 7 > requests.csv",
	"bardo export requests":   "bardo export requests --since 2026-11-01 --until 2026-11-30 > requests.csv\nbardo export requests --key k7Qm2xR9vB4c --format json --records",
	"bardo export journal":    "bardo export journal --since 30 --format json > journal.jsonl",
	"bardo audit":             "bardo audit --json",
	"bardo payments":          "bardo payments\nbardo payments --state failed --json",
	"bardo payments forgive":  "bardo payments forgive req_2f6c1d0a9b8e7f6a5b4c3d2e --reason 'our node was away'\nbardo payments forgive --payer 0x00000000000000000000000000000000000000aa --reason 'paid by invoice 1042'",
	"bardo audit log":         "bardo audit log verify",
	"bardo audit log verify":  "bardo audit log verify --head 1042:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
	"bardo audit log export":  "bardo audit log export > audit.jsonl",
	"bardo pay":               "bardo pay https://api.example/v1/answer --pay-to 0x00000000000000000000000000000000000000aa --max-usd 0.02 --key-file wallet.key",
	"bardo pay proxy":         "bardo pay proxy https://api.example --pay-to 0x00000000000000000000000000000000000000aa --max-usd 0.05 --key-file wallet.key -- claude",
	"bardo pay list":          "bardo pay list --json",
	"bardo pay reconcile":     "bardo pay reconcile --rpc https://node.example",
	"bardo wallet":            "bardo wallet\nbardo wallet --json",
	"bardo providers":         "bardo providers\nbardo providers disable openai",
	"bardo providers disable": "bardo providers disable openai",
	"bardo providers enable":  "bardo providers enable openai",
	"bardo route":             "bardo route --model auto --input-tokens 2000 --tools\nbardo route --subsystem risk --vitality 0.3 --require vision",
	"bardo plan":              "bardo plan --ticks 300 --mix volatile\nbardo plan --actual 7 --golem 0xAb:8453/7",
	"bardo watch":             "bardo watch\nbardo watch --json",
	"bardo doctor":            "bardo doctor -c bardo.yaml",
	"bardo e2ee":              "bardo e2ee proxy --enclave-key CaSHXbj7ESsB9CsAlZoAGMAMKmJdVgzgckxBYp7mvBA=",
	"bardo e2ee send":         "bardo e2ee send request.json --enclave-key CaSHXbj7ESsB9CsAlZoAGMAMKmJdVgzgckxBYp7mvBA=",
	"bardo e2ee proxy":        "bardo e2ee proxy --listen 127.0.0.1:8090 --enclave-key CaSHXbj7ESsB9CsAlZoAGMAMKmJdVgzgckxBYp7mvBA=",
	"bardo feedback":          "bardo feedback --key k7Qm2xR9vB4c",
	"bardo attest":            "bardo attest verify\nbardo attest export > tokens.jsonl",
	"bardo prompts":           "bardo prompts --since 24h\nbardo prompts --key k7Qm2xR9vB4c",
	"bardo attest export":     "bardo attest export --from 100 > tokens.jsonl",
	"bardo attest verify":     "bardo attest verify\nbardo attest verify tokens.jsonl --pubkey KEY --measurement MEASUREMENT",
	"bardo governor":          "bardo governor\nbardo governor --json",
	"bardo models local":      "bardo models local --json",
	"bardo models install":    "bardo models install nomic-embed-text-v1.5 --sha256 HASH --tokenizer-sha256 HASH\nbardo models install nomic-embed-text-v1.5 --file model.onnx --sha256 HASH --tokenizer-file tokenizer.json --tokenizer-sha256 HASH",
}

// arrangeHelp groups the commands by purpose and sets their examples.
func arrangeHelp(root *cobra.Command) {
	for _, p := range purposes {
		root.AddGroup(&cobra.Group{ID: p.id, Title: p.title + ", such as `" + p.example + "`:"})
	}
	root.SetHelpCommandGroupID("operate")
	root.SetCompletionCommandGroupID("operate")
	for _, c := range root.Commands() {
		c.GroupID = purposeOf(c.Name())
	}
	addExamples(root)
	help, _, _ := root.Find([]string{"help"})
	help.Args = func(_ *cobra.Command, args []string) error { // cobra's own prints the root's help for an unknown command, and succeeds
		found, rest, err := root.Find(args)
		if err != nil || len(rest) == 0 {
			return err
		}
		return cli.NoArgs(found, rest)
	}
}

// purposeOf returns the id of a command's group.
func purposeOf(command string) string {
	i := slices.IndexFunc(purposes, func(p purpose) bool { return slices.Contains(p.commands, command) })
	if i < 0 {
		return ""
	}
	return purposes[i].id
}

func addExamples(c *cobra.Command) {
	if text, ok := examples[c.CommandPath()]; ok && c.Example == "" {
		c.Example = "  " + strings.ReplaceAll(text, "\n", "\n  ")
	}
	for _, sub := range c.Commands() {
		addExamples(sub)
	}
}
