package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/adminapi"
	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/admin"
)

func keysCommand() *cobra.Command {
	c := cli.Group("keys", "Create, list, update, rotate and revoke API keys")
	c.AddCommand(keysCreateCommand(), keysListCommand(), keysUpdateCommand(), keysRotateCommand(), keysRevokeCommand())
	return c
}

func keysCreateCommand() *cobra.Command {
	var f keyFlags
	var balance string
	var publishable bool
	c := &cobra.Command{
		Use: "create --name NAME", Short: "Create an API key; its secret is shown once", Args: cli.NoArgs,
		Long: "Create an API key. With --balance-usd it is prepaid: requests are paid from its balance and refused without one.\n" +
			"Otherwise it is metered: what it uses is counted, and no balance limits it.",
	}
	f.add(c)
	c.Flags().StringVar(&balance, "balance-usd", "", "make the key prepaid, with this opening balance")
	c.Flags().BoolVar(&publishable, "publishable", false, "make a key for clients that cannot keep it secret, such as web pages: bardo_pk_…")
	asJSON := cli.JSONFlag(c)
	settings.Flag(c)
	_ = c.MarkFlagRequired("name") // fails only for an unknown flag
	c.RunE = withBooks(func(c *cobra.Command, api *http.Client, _ []string) (err error) {
		n := admin.NewKey{}
		if n.KeyFields, err = f.fields(c); err != nil {
			return err
		}
		if err := dollarFlag(c, "balance-usd", balance, &n.Balance); err != nil {
			return err
		}
		if publishable {
			n.Publishable = admin.Set(true)
		}
		k, err := adminapi.Call[admin.Created](c.Context(), api, http.MethodPost, "/keys", &n)
		if err != nil {
			return err
		}
		if *asJSON {
			return cli.PrintJSON(c, k)
		}
		return printCreated(c, &n, &k)
	})
	return c
}

// printCreated prints a new key with its secret and its limits.
func printCreated(c *cobra.Command, n *admin.NewKey, k *admin.Created) error {
	balance := "metered"
	if k.Balance != nil {
		balance = cli.Dollars(*k.Balance)
	}
	lines := [][2]string{{"id", string(k.ID)}, {"name", k.Name}, {"tier", string(k.Tier)}, {"balance", balance}}
	lines = append(append(lines, limitsOf(n.Limits())...), [2]string{"key", k.Key})
	w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
	for _, l := range lines {
		if _, err := fmt.Fprintf(w, "%s\t%s\n", l[0], l[1]); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprint(c.OutOrStdout(), "\nThe key is shown this once: keep it now.\n")
	return err
}

func keysUpdateCommand() *cobra.Command {
	var f keyFlags
	c := &cobra.Command{
		Use: "update ID", Short: "Update an API key; fields without a flag keep their values", Args: cli.OneArg("the key's id"),
		Long: "Update an API key, while the gateway runs or not. Fields without a flag keep their values.\n" +
			"A key stays prepaid or metered; `bardo deposit` adds to a balance.",
	}
	f.add(c)
	asJSON := cli.JSONFlag(c)
	settings.Flag(c)
	c.RunE = withBooks(func(c *cobra.Command, api *http.Client, args []string) error {
		at, err := keyPath(args[0], "")
		if err != nil {
			return err
		}
		fields, err := f.fields(c)
		if err != nil {
			return err
		}
		if fields.Empty() {
			return errors.New("nothing to change: give at least one of --name, --tier, --limit-usd-day, --rpm, --ip, --read-only, --injection, --pii, --" + strings.Join(scopeNames, ", --"))
		}
		k, err := adminapi.Call[admin.Key](c.Context(), api, http.MethodPatch, at, &fields)
		return printKey(c, &k, err, *asJSON)
	})
	return c
}

func keysRevokeCommand() *cobra.Command {
	c := &cobra.Command{Use: "revoke ID", Short: "Revoke an API key permanently; its balance stays in the ledger", Args: cli.OneArg("the key's id")}
	asJSON := cli.JSONFlag(c)
	settings.Flag(c)
	c.RunE = withBooks(func(c *cobra.Command, api *http.Client, args []string) error {
		at, err := keyPath(args[0], "/revoke")
		if err != nil {
			return err
		}
		k, err := adminapi.Call[admin.Key](c.Context(), api, http.MethodPost, at, nil)
		return printKey(c, &k, err, *asJSON)
	})
	return c
}

func keysRotateCommand() *cobra.Command {
	var overlap time.Duration
	c := &cobra.Command{
		Use: "rotate ID", Short: "Give an API key a new secret; the old one counts for a while", Args: cli.OneArg("the key's id"),
		Long: "Give an API key a new secret, which is shown once. Id, balance, limits and usage stay. The old secret is refused after --overlap; one that\n" +
			"a rotation before it replaced is refused immediately.",
	}
	c.Flags().DurationVar(&overlap, "overlap", admin.DefaultOverlap, "how long the old secret counts; 0 ends it immediately")
	asJSON := cli.JSONFlag(c)
	settings.Flag(c)
	c.RunE = withBooks(func(c *cobra.Command, api *http.Client, args []string) error {
		at, err := keyPath(args[0], "/rotate")
		if err != nil {
			return err
		}
		if overlap < 0 || overlap > admin.MaxOverlap {
			return fmt.Errorf("--overlap %s, expected 0 to %s", overlap, admin.MaxOverlap)
		}
		how := admin.Rotation{Overlap: admin.Set(int64(overlap / time.Second))}
		r, err := adminapi.Call[admin.Rotated](c.Context(), api, http.MethodPost, at, &how)
		if err != nil {
			return err
		}
		if *asJSON {
			return cli.PrintJSON(c, r)
		}
		_, err = fmt.Fprintf(c.OutOrStdout(), "id       %s\nkey      %s\n\nThe key is shown this once: keep it now. The old secret counts until %s.\n",
			r.ID, r.Key, r.OldUntil.UTC().Format(time.RFC3339))
		return err
	})
	return c
}

func keysListCommand() *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List the API keys, without their secrets", Args: cli.NoArgs}
	asJSON := cli.JSONFlag(c)
	settings.Flag(c)
	c.RunE = withBooks(func(c *cobra.Command, api *http.Client, _ []string) error {
		keys, err := adminapi.All(c.Context(), api, "/keys", func(k *admin.Key) string { return string(k.ID) })
		if err != nil {
			return err
		}
		if *asJSON {
			return cli.PrintJSON(c, keys)
		}
		return printKeys(c, keys)
	})
	return c
}

// keyPath is the admin API's path of a key. If a whole key is given, the error does not repeat it: secrets do not belong on a command line.
func keyPath(id, below string) (string, error) {
	account, err := keyID(id)
	return "/keys/" + url.PathEscape(string(account)) + below, err
}

// keyID validates a key's id.
func keyID(arg string) (policy.Account, error) {
	switch {
	case strings.HasPrefix(arg, "bardo_"):
		return "", errors.New("give the key's id, which `bardo keys list` shows, and not the key itself")
	case arg == "", arg == ".", arg == "..": // not path segments
		return "", fmt.Errorf("key %q: there is no such key; `bardo keys list` shows those that there are", arg)
	}
	return policy.Account(arg), nil
}
