package main

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
	"bardo.money/gateway/policy/ledger"
)

// scopeFlags are the flags for what a key may be used for.
type scopeFlags struct {
	spendMonth, expires, project string
	models, subsystems, origins  []string
}

func (f *scopeFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.spendMonth, "limit-usd-month", "", "most it may spend per UTC month; 0 means no limit")
	c.Flags().StringVar(&f.expires, "expires", "", "when it ends: a time as 2006-01-02T15:04:05Z, a day, a duration such as 720h, or never")
	c.Flags().StringVar(&f.project, "project", "", "the project that it belongs to, or none")
	c.Flags().StringSliceVar(&f.models, "model", nil, "model that it may use, or a prefix such as 'claude-*', or \"any\"; may be repeated")
	c.Flags().StringSliceVar(&f.subsystems, "subsystem", nil, "subsystem that it may be used by, or \"any\"; may be repeated")
	c.Flags().StringSliceVar(&f.origins, "origin", nil, "origin of web pages that it may be used by, such as https://app.example, or \"any\"; may be repeated")
}

// scopeNames are the names of the flags.
var scopeNames = []string{"limit-usd-month", "expires", "project", "model", "subsystem", "origin"}

// apply puts the flags that were given into a key.
func (f *scopeFlags) apply(c *cobra.Command, k *ledger.KeyRow) (err error) {
	given := c.Flags().Changed
	if given("limit-usd-month") {
		if k.SpendMonth, err = parseAmount("--limit-usd-month", f.spendMonth); err != nil {
			return err
		}
	}
	if given("expires") {
		if k.Expires, err = parseExpiry(f.expires, time.Now()); err != nil {
			return err
		}
	}
	if given("project") {
		if k.Project, err = parseProject(f.project); err != nil {
			return err
		}
	}
	for _, list := range []struct {
		flag  string
		given []string
		into  *[]string
		check func(string) (string, error)
	}{{"model", f.models, &k.Models, parseModel}, {"subsystem", f.subsystems, &k.Subsystems, parseSubsystem}, {"origin", f.origins, &k.Origins, parseOrigin}} {
		if !given(list.flag) {
			continue
		}
		if *list.into, err = parseList("--"+list.flag, list.given, list.check); err != nil {
			return err
		}
	}
	return nil
}

// parseExpiry reads when a key ends.
func parseExpiry(s string, now time.Time) (time.Time, error) {
	if s == "never" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(s); err == nil && d > 0 {
		return now.Add(d).Truncate(time.Second), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil && t.After(now) {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("--expires %q, expected a time to come as 2006-01-02T15:04:05Z, a day, a duration such as 720h, or never", s)
}

const (
	maxListed = 100
	maxItem   = 200 // bytes
)

// parseList reads what a key is bound to; any alone lifts it. An empty list is refused, so that an empty variable in a script does not open a key.
func parseList(flag string, given []string, check func(string) (string, error)) ([]string, error) {
	if len(given) == 1 && given[0] == "any" {
		return nil, nil
	}
	var list []string
	for _, s := range given {
		s = strings.TrimSpace(s)
		if s == "" || len(s) > maxItem {
			return nil, fmt.Errorf("%s: an entry is empty, or longer than %d bytes", flag, maxItem)
		}
		s, err := check(s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
		if !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	if len(list) == 0 || len(list) > maxListed {
		return nil, fmt.Errorf("%s: expected 1 to %d entries, or any", flag, maxListed)
	}
	return list, nil
}

func parseModel(s string) (string, error) {
	if i := strings.IndexByte(s, '*'); i >= 0 && i < len(s)-1 || s == "*" {
		return "", fmt.Errorf("%q: a prefix ends in its only *", s)
	}
	return s, nil
}

func parseSubsystem(s string) (string, error) {
	if !intent.Known(s) {
		return "", fmt.Errorf("%q is no subsystem, expected one such as %s", s, strings.Join(intent.Names(), ", "))
	}
	return s, nil
}

// parseOrigin reads an origin as browsers send it.
func parseOrigin(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.Scheme+"://"+u.Host != s {
		return "", fmt.Errorf("%q, expected an origin such as https://app.example, without a path", s)
	}
	return strings.ToLower(s), nil
}

func keysRotateCommand() *cobra.Command {
	var overlap time.Duration
	c := &cobra.Command{
		Use: "rotate ID", Short: "Give an API key a new secret; the old one counts for a while", Args: cli.OneArg("the key's id"),
		Long: "Give an API key a new secret, which is shown once. Id, balance, limits and usage stay. The old secret is refused after --overlap; one that\n" +
			"a rotation before it replaced is refused immediately.",
	}
	c.Flags().DurationVar(&overlap, "overlap", 24*time.Hour, "how long the old secret counts; 0 ends it immediately")
	asJSON := cli.JSONFlag(c)
	settings.Flag(c)
	c.RunE = withLedger(func(c *cobra.Command, t tool, args []string) error {
		id, err := keyID(args[0])
		if err != nil {
			return err
		}
		if overlap < 0 || overlap > home.MaxOverlap {
			return fmt.Errorf("--overlap %s, expected 0 to %s", overlap, home.MaxOverlap)
		}
		pepper, err := home.PepperOf(c.Context(), t.home, t.books)
		if err != nil {
			return err
		}
		r, err := home.RotateKey(c.Context(), t.books, pepper, id, overlap)
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

// checkPublishable says in terms of flags what a publishable key needs.
func checkPublishable(k *ledger.KeyRow) error {
	if k.Publishable && (!k.Prepaid || k.SpendDay <= 0 && k.SpendMonth <= 0 || len(k.Networks) == 0 && len(k.Origins) == 0) {
		return errors.New("--publishable needs --balance-usd, --limit-usd-day or --limit-usd-month, and --ip or --origin: who has the key can use it up")
	}
	return nil
}

// scopeInfo is what a key may be used for as `keys list --json` prints it.
type scopeInfo struct {
	SpendMonth  *policy.Micro `json:"limit_usd_month"` // null: no limit
	Models      []string      `json:"models"`          // none: any
	Subsystems  []string      `json:"subsystems"`
	Origins     []string      `json:"origins"`
	Publishable bool          `json:"publishable"`
	Expires     *time.Time    `json:"expires_at"` // null: never
	OldUntil    *time.Time    `json:"old_secret_until"`
	Project     string        `json:"project,omitempty"`
}

func scopeOf(k *ledger.KeyRow) scopeInfo {
	list := func(l []string) []string { return append([]string{}, l...) }
	s := scopeInfo{Models: list(k.Models), Subsystems: list(k.Subsystems), Origins: list(k.Origins), Publishable: k.Publishable, Project: k.Project}
	if k.SpendMonth > 0 {
		s.SpendMonth = &k.SpendMonth
	}
	if !k.Expires.IsZero() {
		s.Expires = new(k.Expires.UTC())
	}
	if k.OldHash != "" && time.Now().Before(k.OldUntil) {
		s.OldUntil = new(k.OldUntil.UTC())
	}
	return s
}

// text is what a key is bound to, in a table.
func (s *scopeInfo) text() string {
	var parts []string
	add := func(name string, list []string) {
		if len(list) > 0 {
			parts = append(parts, name+"="+strings.Join(list, ","))
		}
	}
	add("models", s.Models)
	add("subsystems", s.Subsystems)
	add("origins", s.Origins)
	if s.Project != "" {
		parts = append(parts, "project="+s.Project)
	}
	if s.SpendMonth != nil {
		parts = append(parts, "month="+cli.Dollars(*s.SpendMonth))
	}
	if s.Expires != nil {
		parts = append(parts, "until="+s.Expires.Format(time.RFC3339))
	}
	if parts == nil {
		return "everything"
	}
	return strings.Join(parts, " ")
}
