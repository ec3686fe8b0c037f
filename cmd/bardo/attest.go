package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/policy/attestation"
)

func attestCommand() *cobra.Command {
	c := &cobra.Command{Use: "attest", Short: "Export and verify the proofs of attested answers", Args: cli.NoArgs}
	c.AddCommand(attestExportCommand(), attestVerifyCommand())
	return c
}

func attestExportCommand() *cobra.Command {
	var from int64
	c := &cobra.Command{
		Use: "export", Short: "Print the tokens of attested answers, a JSON object per line", Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return exportTokens(c, from, c.OutOrStdout()) },
	}
	c.Flags().Int64Var(&from, "from", 1, "the number of the first token")
	return c
}

func exportTokens(c *cobra.Command, from int64, to io.Writer) error {
	h, err := home.Open()
	if err != nil {
		return err
	}
	book, err := attestation.OpenBook(h.Path(home.Attestations))
	if err != nil {
		return err
	}
	var written countingWriter
	err = errors.Join(book.Export(c.Context(), from, io.MultiWriter(to, &written)), book.Close())
	if err == nil && written == 0 {
		_, _ = fmt.Fprintf(c.ErrOrStderr(), "there is no token from number %d on: answers of providers with an attestation_pubkey have one\n", from) // nowhere to report a broken terminal to
	}
	return err
}

// countingWriter counts bytes.
type countingWriter int

func (w *countingWriter) Write(b []byte) (int, error) {
	*w += countingWriter(len(b))
	return len(b), nil
}

func attestVerifyCommand() *cobra.Command {
	var keys, measurements []string
	var head string
	c := &cobra.Command{
		Use: "verify [FILE]", Short: "Verify the tokens of attested answers, without the gateway", Args: cli.AtMostOneArg("a file of tokens, or - for the standard input"),
		Long: "Verify the tokens of attested answers, without the gateway: that each receipt is signed, of a trusted enclave, and about what its token says, and that no token\n" +
			"was changed, removed or inserted. FILE is an export (- for the standard input); without it, the tokens of this gateway are read. Without --pubkey, the keys\n" +
			"and measurements are those of the configuration. What was cut off at the end shows by --head, the hash of the last token that is known.",
	}
	c.Flags().StringSliceVar(&keys, "pubkey", nil, "a public key that receipts may be signed with, in base64 or hexadecimal; may be repeated")
	c.Flags().StringSliceVar(&measurements, "measurement", nil, "an enclave that is trusted; may be repeated")
	c.Flags().StringVar(&head, "head", "", "the hash that the last token must have")
	asJSON := cli.JSONFlag(c)
	settings.Flag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		p, err := trusted(c, keys, measurements)
		if err != nil {
			return err
		}
		report, err := checkTokens(c, p, args)
		if err != nil {
			return err
		}
		if head != "" && report.Head != head {
			report.Faults = append(report.Faults, "the last token is not the one that --head names")
		}
		return printReport(c, report, *asJSON)
	}
	return c
}

// trusted returns the policy of trusted receipts: from the flags, else from the configuration.
func trusted(c *cobra.Command, keys, measurements []string) (*attestation.Policy, error) {
	if len(keys) > 0 {
		return attestation.NewPolicy(keys, measurements)
	}
	h, err := home.Open()
	if err != nil {
		return nil, err
	}
	cfg, _, err := settings.ForCommand(c, h)
	if err != nil {
		return nil, err
	}
	for _, p := range cfg.Enabled() {
		keys, measurements = append(keys, p.Attestation.Keys...), append(measurements, p.Attestation.Measurements...)
	}
	if len(keys) == 0 {
		return nil, errors.New("no key to verify receipts with: use --pubkey and --measurement, or a configuration with providers.venice.attestation_pubkey")
	}
	return attestation.NewPolicy(keys, measurements)
}

// checkTokens verifies the tokens in a file, on the standard input, or of this gateway.
func checkTokens(c *cobra.Command, p *attestation.Policy, args []string) (*attestation.Report, error) {
	switch {
	case len(args) == 0:
		return checkOwn(c, p)
	case args[0] == "-":
		return attestation.Check(p, c.InOrStdin())
	}
	f, err := os.Open(args[0])
	if err != nil {
		return nil, err
	}
	r, err := attestation.Check(p, f)
	return r, errors.Join(err, f.Close())
}

func checkOwn(c *cobra.Command, p *attestation.Policy) (*attestation.Report, error) {
	from, to := io.Pipe()
	go func() { to.CloseWithError(exportTokens(c, 1, to)) }()
	r, err := attestation.Check(p, from)
	return r, errors.Join(err, from.Close())
}

func printReport(c *cobra.Command, r *attestation.Report, asJSON bool) error {
	if asJSON {
		if err := cli.PrintJSON(c, r); err != nil {
			return err
		}
	} else {
		out := c.OutOrStdout()
		for _, f := range r.Faults {
			_, _ = fmt.Fprintln(out, f) // nowhere to report a broken terminal to
		}
		if _, err := fmt.Fprintf(out, "%d tokens: %d valid, %d void, %d faulty; the last one is %s\n", r.Tokens, r.Valid, r.Void, r.Faulty, orNone(r.Head)); err != nil {
			return err
		}
	}
	if len(r.Faults) > 0 {
		return cli.Exit(1)
	}
	return nil
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
