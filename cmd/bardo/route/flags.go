package route

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"bardo.money/gateway/cmd/bardo/cli"
)

// commonFlags are the flags that the help shows; --help-all shows all flags.
var commonFlags = []string{
	"model", "input-tokens", "max-tokens", "tools", "images", "schema", "effort", "tier", "empty", "json", "config", "help", "help-all",
	"subsystem", "vitality", "security-class", "require", "prefer", "quality", "cost-sensitivity", "max-latency-ms",
}

// addRequestFlags adds the flags that describe the request itself.
func addRequestFlags(c *cobra.Command, ask *request) {
	f := c.Flags()
	f.StringVar(&ask.Model, "model", "", "the model, or provider/model")
	f.StringVar(&ask.Prompt, "prompt", "", "the user's message, from which the task is inferred for the model auto")
	f.Int64Var(&ask.Input, "input-tokens", 1000, "input tokens of the request")
	f.Int64Var(&ask.Output, "max-tokens", 0, "limit of output tokens (default, for costs: the profile's, else billing.reserve_output_tokens)")
	f.BoolVar(&ask.Tools, "tools", false, "the request has tools")
	f.BoolVar(&ask.Images, "images", false, "the request has images")
	f.BoolVar(&ask.Audio, "audio", false, "the request has audio")
	f.BoolVar(&ask.Video, "video", false, "the request has video")
	f.BoolVar(&ask.Documents, "documents", false, "the request has files other than text, such as PDF")
	f.BoolVar(&ask.Schema, "schema", false, "the answer must follow a schema")
	f.StringVar(&ask.Effort, "effort", "", "the reasoning effort (none, low, medium, high, max)")
	cli.Completes(c, "effort", "none", "low", "medium", "high", "max")
	f.BoolVar(&ask.Broke, "empty", false, "the key has a balance, which is empty")
	f.StringVar(&ask.Tier, "tier", "", "the plan of the key (free, pro, golem)")
	cli.Completes(c, "tier", "free", "pro", "golem")
}

// hideRareFlags hides all flags except the common ones from the help, unless --help-all is given. Hidden flags work.
func hideRareFlags(c *cobra.Command) {
	all := c.Flags().Bool("help-all", false, "help with all flags")
	each := func(hide bool) {
		c.Flags().VisitAll(func(f *pflag.Flag) { f.Hidden = hide && !slices.Contains(commonFlags, f.Name) })
	}
	each(true)
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if *all {
			each(false)
			return c.Help()
		}
		return run(c, args)
	}
}
