package config

import (
	"fmt"
	"maps"
	"net/netip"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"bardo.money/gateway/internal/modelfile"
	"bardo.money/gateway/internal/near"
	"bardo.money/gateway/policy"
)

// check finds mistakes that involve several fields.
func (d *decoder) check(cfg *Config) {
	d.checkListeners(cfg)
	d.checkOrigins(cfg)
	d.checkTLS("listen.tls", cfg.Listen.TLS)
	if cfg.Listen.TLS.ClientCA != "" { // it must not be ignored silently: operators rely on it
		d.problem("listen.tls.client_ca", "no such key", "this version asks no client for a certificate")
	}
	d.checkAttestation(cfg.Providers.Venice)
	d.checkStaking(cfg)
	d.checkBankr(cfg.Providers.Bankr)
	d.checkSeals(cfg)
	d.checkSplit(cfg)
	d.checkHosts(cfg)
	d.checkCustoms(cfg)
	d.checkOrder(cfg)
	d.checkProxy(cfg)
	d.checkPlans(cfg)
	d.checkInference(&cfg.Inference, cfg.names())
	d.checkClearText(cfg)
	d.checkStore(cfg)
	d.checkEvents(cfg.Telemetry.Events)
	d.checkOTLP(cfg)
	d.checkClickHouse(&cfg.Telemetry)
	d.checkObjectStore(&cfg.Telemetry.ObjectStore)
	d.checkPrompts(cfg)
	d.checkNotifications(&cfg.Notifications)
	d.checkTasks(cfg.Pipeline.Tools.Map)
	d.checkPatterns(cfg.Pipeline.PII.Patterns)
	d.checkFirewall(&cfg.Pipeline.Firewall)
	d.checkGuardrails(cfg.Pipeline.Guardrails)
	d.checkMCP(cfg)
	d.checkX402(cfg)
	d.checkWallet(cfg)
	d.checkIdentity(cfg)
	d.checkRetrieval(&cfg.Pipeline.Retrieval)
	d.checkLimits(cfg)
}

// problem reports a mistake at a key, unless the key's value already has a problem.
func (d *decoder) problem(key, expected, format string, args ...any) {
	if slices.ContainsFunc(d.problems, func(p Problem) bool { return p.Key == key && !p.Warning }) {
		return
	}
	d.fail(d.place(key), key, expected, format, args...)
}

// checkTasks checks the patterns of tools' names.
func (d *decoder) checkTasks(tasks map[string][]string) {
	for _, task := range slices.Sorted(maps.Keys(tasks)) {
		for i, p := range tasks[task] {
			if _, err := path.Match(p, ""); err != nil {
				d.problem(fmt.Sprintf("pipeline.tools.map.%s[%d]", task, i), "a tool's name, with * for any text", "%q cannot be read as a pattern", p)
			}
		}
	}
}

// Limits of an operator's patterns of personal data.
const (
	maxPIIPatterns = 64
	maxPIIPattern  = 1024
)

var piiName = pattern(`^[a-z][a-z0-9_]{0,23}$`)

// checkPatterns tries the patterns of personal data on their examples.
func (d *decoder) checkPatterns(patterns map[string]PIIPattern) {
	if len(patterns) > maxPIIPatterns {
		d.problem("pipeline.pii.patterns", fmt.Sprintf("at most %d", maxPIIPatterns), "%d patterns", len(patterns))
	}
	for _, name := range slices.Sorted(maps.Keys(patterns)) {
		p, key := patterns[name], "pipeline.pii.patterns."+name
		re, err := regexp.Compile(p.Regexp)
		switch {
		case !piiName().MatchString(name) || slices.Contains(piiTypes, name):
			d.problem(key, "a new name of lower-case letters, digits and underscores, at most 24", "%q cannot name a type", name)
		case p.Regexp == "" || len(p.Regexp) > maxPIIPattern:
			d.problem(key+".regexp", fmt.Sprintf("1 to %d bytes", maxPIIPattern), "%d bytes", len(p.Regexp))
		case err != nil:
			d.problem(key+".regexp", "a regular expression (RE2)", "%v", err)
		case re.MatchString(""):
			d.problem(key+".regexp", "a pattern of something", "it matches an empty text")
		default:
			d.tryPattern(key, re, &p)
		}
	}
}

// piiTypes are the built-in types.
var piiTypes = []string{"private_key", "seed_phrase", "secret", "password", "iban", "card", "ssn", "email", "phone", "ip", "evm_address", "postal_address", "person_name", "literal"}

func (d *decoder) tryPattern(key string, re *regexp.Regexp, p *PIIPattern) {
	for i, e := range p.Examples {
		if at := re.FindStringIndex(e); len(at) != 2 || at[0] != 0 || at[1] != len(e) {
			d.problem(fmt.Sprintf("%s.examples[%d]", key, i), "a value that the pattern matches", "the pattern does not match the whole of %q", e)
		}
	}
	for i, e := range p.Not {
		if found := re.FindString(e); found != "" {
			d.problem(fmt.Sprintf("%s.not[%d]", key, i), "a text in which the pattern finds nothing", "the pattern finds %q", found)
		}
	}
}

// minTokenLen is the length in bytes below which a token could be guessed.
const minTokenLen = 32

func (d *decoder) checkListeners(cfg *Config) {
	if t := cfg.Listen.AdminToken; t.IsSet() && len(t.Reveal()) < minTokenLen {
		d.problem("listen.admin_token", "at least 32 characters, such as `openssl rand -hex 32` prints", "a shorter one could be guessed")
	}
	listeners := []struct {
		key  string
		addr Addr
	}{
		{"listen.http", cfg.Listen.HTTP},
		{"listen.https", cfg.Listen.HTTPS},
		{"listen.admin", cfg.Listen.Admin},
		{"listen.envoy_admin", cfg.Listen.EnvoyAdmin},
	}
	taken := map[Addr]string{}
	for _, l := range listeners {
		if cfg.Auth.Anonymous && !l.addr.Loopback() {
			d.problem("auth.anonymous", "false, or every listener on 127.0.0.1",
				"anyone who reaches %s %s could spend the operator's money", l.key, l.addr)
		}
		if l.key != "listen.admin" && !l.addr.isIP() { // Envoy opens the others
			d.problem(l.key, "an IP address without a zone and a port", "%q has another host", string(l.addr))
		}
		if l.addr == "" || strings.HasSuffix(string(l.addr), ":0") {
			continue
		}
		if other, ok := taken[l.addr]; ok {
			d.problem(l.key, "another port", "%s is also %s", l.addr, other)
		}
		taken[l.addr] = l.key
	}
}

// originForm is an origin in the format of browsers: a scheme, a host, and a port other than the scheme's default.
var originForm = pattern(`^[a-z][a-z0-9+.-]*://[^/?#@*\s,]+$`)

func (d *decoder) checkOrigins(cfg *Config) {
	for i, o := range cfg.Listen.CORSOrigins {
		key := fmt.Sprintf("listen.cors_origins[%d]", i)
		switch {
		case o == "*" && cfg.Auth.Anonymous:
			d.problem(key, "the origins one by one, or auth.anonymous: false", "every web page could spend the operator's money")
		case o != "*" && !originForm().MatchString(o):
			d.problem(key, "an origin such as https://app.example or http://localhost:3000, or *", "%q is no origin: it has a scheme and a host, and no path", o)
		}
	}
}

func (d *decoder) checkTLS(key string, t TLS) {
	if (t.Cert == "") != (t.Key == "") {
		d.problem(key, "cert and key together", "half a certificate")
	}
	if t.ClientCA != "" && t.Cert == "" {
		d.problem(key+".client_ca", "cert and key beside it", "no certificate of our own")
	}
}

// idPattern is the form of a custom id: it is used in URLs, headers and before the slash of provider/model.
var idPattern = pattern(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func (d *decoder) checkHosts(cfg *Config) {
	for _, k := range d.kinds.hosts() {
		if h := cfg.Providers.Hosts[policy.ProviderID(k.Name)]; h != nil {
			d.checkModels("providers."+k.Name+".models", h.Models)
		}
	}
}

func (d *decoder) checkCustoms(cfg *Config) {
	seen := map[policy.ProviderID]bool{}
	for i, c := range cfg.Providers.Custom {
		key := fmt.Sprintf("providers.custom[%d]", i)
		switch {
		case c.ID == "":
			d.problem(key+".id", "a name", missing)
		case !idPattern().MatchString(string(c.ID)):
			d.problem(key+".id", "letters, digits, dots, dashes and underscores", "%q cannot be an id", c.ID)
		case slices.Contains(d.kinds.reserved(), c.ID):
			d.problem(key+".id", "another name", "%q is the name of a built-in provider", c.ID)
		case seen[c.ID], cfg.Providers.Hosts[c.ID] != nil:
			d.problem(key+".id", "another name", "%q is given twice", c.ID)
		}
		seen[c.ID] = true
		d.checkFormat(key+".format", c.Format)
		if c.Betas != nil && c.Format != FormatAnthropic {
			d.problem(key+".betas", "format: anthropic", "only that format has beta flags")
		}
		if c.CacheControl && c.Format != FormatOpenAI {
			d.problem(key+".cache_control", "format: openai", "only that format needs it said")
		}
		if c.Completions != nil && *c.Completions && c.Format != FormatOpenAI {
			d.problem(key+".completions", "format: openai", "only servers of that format complete prompts")
		}
		if c.Responses && c.Format != FormatOpenAI {
			d.problem(key+".responses", "format: openai", "only servers of that format speak Responses beside it")
		}
		d.checkEndpoints(key+".endpoints", c.Endpoints)
		d.checkModels(key+".models", c.Models)
	}
}

func (d *decoder) checkFormat(key, format string) {
	switch format {
	case FormatOpenAI, FormatAnthropic, FormatGemini, FormatBardo:
	default:
		d.problem(key, "openai, anthropic, gemini or bardo", "%q is no known format", format)
	}
}

// checkEndpoints requires equal servers: a retry on another endpoint changes only the host.
func (d *decoder) checkEndpoints(key string, urls []URL) {
	if len(urls) == 0 {
		d.problem(key, "at least one URL", missing)
		return
	}
	for i, u := range urls {
		if u.Host != "" && (u.Scheme != urls[0].Scheme || u.Path != urls[0].Path) {
			d.problem(fmt.Sprintf("%s[%d]", key, i), "the same scheme and path as the first",
				"the endpoints of one provider differ in more than host and port")
		}
	}
}

func (d *decoder) checkModels(key string, models []Model) {
	seen := map[string]bool{}
	for i, m := range models {
		at := fmt.Sprintf("%s[%d]", key, i)
		for _, id := range append([]string{m.ID}, m.Aliases...) {
			switch {
			case id == "":
				d.problem(at+".id", "the id that clients use", missing)
			case strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r == 0x7f }):
				d.problem(at+".id", "an id without spaces", "%q cannot be an id", id)
			case seen[id]:
				d.problem(at+".id", "another id", "%q is given twice", id)
			}
			seen[id] = true
		}
		if m.Price != nil {
			d.checkPrice(at+".price", m.Price)
		}
	}
}

// checkPrice refuses incomplete prices.
func (d *decoder) checkPrice(at string, p *modelfile.Price) {
	d.checkHalves(at, p.Input, p.Output, true)
	d.checkLong(at, p.Above)
	d.checkHours(at, p.Hours)
	for _, name := range slices.Sorted(maps.Keys(p.ServiceTiers)) {
		t, tier := p.ServiceTiers[name], at+".service_tiers."+name
		d.checkHalves(tier, t.Input, t.Output, false)
		d.checkLong(tier, t.Above)
	}
}

// checkHours refuses parts of the day without a start, an end or a price.
func (d *decoder) checkHours(at string, hours []modelfile.HourPrice) {
	for i := range hours {
		h, one := &hours[i], fmt.Sprintf("%s.hours[%d]", at, i)
		for _, c := range [...]struct{ key, text string }{{".from", h.From}, {".to", h.To}} {
			if _, ok := modelfile.ParseClock(c.text); !ok {
				d.problem(one+c.key, "a time of the day such as 16:30", "%q is none", c.text)
			}
		}
		if h.From == h.To {
			d.problem(one+".to", "another time than from (00:00 and 24:00 for the whole day)", "%q", h.To)
		}
		d.checkHalves(one, h.Input, h.Output, h.Percent > 0)
		if h.Percent > 0 && (h.Input != nil || h.CachedInput != nil || h.CacheWrite != nil || h.CacheWrite1h != nil || h.Above != nil) {
			d.problem(one+".pct", "either a percentage or prices", "both")
		}
		d.checkLong(one, h.Above)
	}
}

// checkLong refuses unsorted prices of longer prompts.
func (d *decoder) checkLong(at string, above []modelfile.LongPrice) {
	for i := range above {
		one := fmt.Sprintf("%s.above[%d]", at, i)
		d.checkHalves(one, above[i].Input, above[i].Output, false)
		if i > 0 && above[i].Tokens <= above[i-1].Tokens || above[i].Tokens == 0 {
			d.problem(one+".tokens", "more than before", "%d", above[i].Tokens)
		}
	}
}

// checkHalves refuses a price of input or output alone and, if none is false, a missing price.
func (d *decoder) checkHalves(at string, input, output *policy.Price, none bool) {
	if (input == nil) != (output == nil) || input == nil && !none {
		d.problem(at, "input and output together", "half a price")
	}
}

// checkOrder refuses unknown provider names, and warns of providers that are not configured: machines with different keys in their environment may
// share a file, so these are skipped.
func (d *decoder) checkOrder(cfg *Config) {
	known, enabled := cfg.names(), map[policy.ProviderID]bool{}
	for _, p := range cfg.withoutDemo() {
		enabled[p.section()] = true
	}
	for i, id := range cfg.Providers.Order {
		key := fmt.Sprintf("providers.order[%d]", i)
		if slices.Index(cfg.Providers.Order, id) < i {
			d.problem(key, "each provider once", "%q is given twice", id)
			continue
		}
		d.checkName(key, string(id), known)
		if slices.Contains(known, string(id)) && !enabled[id] {
			d.warn(d.place(key), key, "%s is not configured and is skipped: %s", id, cfg.EnabledBy(id))
		}
	}
}

// checkProxy refuses a proxy that Envoy cannot use.
func (d *decoder) checkProxy(cfg *Config) {
	p := cfg.Providers.Proxy
	if p != (URL{}) {
		if at, err := netip.ParseAddrPort(p.Host); err != nil || at.Port() == 0 || p.Scheme != "http" || p.Path != "" {
			d.problem("providers.proxy", "an address such as http://10.0.0.1:3128", "%s is not that of an HTTP proxy: a scheme http, an IP address and a port", p)
		}
	}
	for i, id := range cfg.Providers.NoProxy {
		d.checkName(fmt.Sprintf("providers.no_proxy[%d]", i), string(id), cfg.names())
	}
}

// names returns the names of all providers.
func (c *Config) names() []string {
	var known []string
	for _, id := range c.kinds.names() {
		known = append(known, string(id))
	}
	for _, custom := range c.Providers.Custom {
		known = append(known, string(custom.ID))
	}
	return known
}

func (d *decoder) checkName(key, name string, known []string) {
	if slices.Contains(known, name) {
		return
	}
	expected := "one of " + strings.Join(known, ", ")
	if like := near.Names(name, known, 1); len(like) > 0 {
		expected = like[0]
	}
	d.problem(key, expected, "%q is no provider", name)
}

// checkPlans checks the names in billing.tiers.
func (d *decoder) checkPlans(cfg *Config) {
	plans := []string{string(policy.TierFree), string(policy.TierPro), string(policy.TierGolem)}
	known := cfg.names()
	for _, name := range slices.Sorted(maps.Keys(cfg.Billing.Tiers)) {
		key := "billing.tiers." + name
		if !slices.Contains(plans, name) {
			d.problem(key, "one of "+strings.Join(plans, ", "), "%q is no plan", name)
		}
		for i, id := range cfg.Billing.Tiers[name].Exclude {
			d.checkName(fmt.Sprintf("%s.exclude[%d]", key, i), id, known)
		}
	}
}

// checkInference checks names under inference, which would have no effect if they were mistyped. providers are the names of all providers.
func (d *decoder) checkInference(i *Inference, providers []string) {
	tiers := []string{"T1", "T2"}
	for _, name := range slices.Sorted(maps.Keys(i.Tiers)) {
		if !slices.Contains(tiers, name) {
			d.problem("inference.tiers."+name, "one of "+strings.Join(tiers, ", "), "%q is no tier", name)
		}
	}
	if name := string(i.DreamProvider); name != "" {
		d.checkName("inference.dream_provider", name, providers)
	}
}

// checkClearText warns of a key that is sent over the internet without encryption.
func (d *decoder) checkClearText(cfg *Config) {
	for _, k := range d.kinds.hosts() {
		if p := cfg.Providers.Hosts[policy.ProviderID(k.Name)]; p != nil && p.key().IsSet() && !p.BaseURL.TLS() && p.BaseURL.Public() {
			key := join("providers", k.Name) + ".base_url"
			d.warn(d.place(key), key, "the key goes to %s without encryption", p.BaseURL.Host)
		}
	}
	for _, p := range cfg.special() {
		for _, u := range p.Endpoints {
			if len(p.Keys) > 0 && !u.TLS() && u.Public() {
				key := join("providers", string(p.ID))
				d.warn(d.place(key), key, "the key goes to %s without encryption", u.Host)
			}
		}
	}
	for i, c := range cfg.Providers.Custom {
		for j, u := range c.Endpoints {
			if c.APIKey.IsSet() && u.Host != "" && !u.TLS() && u.Public() {
				key := fmt.Sprintf("providers.custom[%d].endpoints[%d]", i, j)
				d.warn(d.place(key), key, "the key goes to %s without encryption", u.Host)
			}
		}
	}
}

func (d *decoder) checkEvents(to string) {
	if path, ok := strings.CutPrefix(to, "file:"); to != "" && to != "stdout" && (!ok || path == "") {
		d.problem("telemetry.events", "stdout or file:/path", "%q is no place for events", to)
	}
}

// checkOTLP refuses invalid headers and unknown providers.
func (d *decoder) checkOTLP(cfg *Config) {
	t, known := &cfg.Telemetry, cfg.names()
	d.checkHeaders("telemetry.otlp_headers.", t.OTLPHeaders)
	if u := t.OTLP; len(t.OTLPHeaders) > 0 && u.Host != "" && !u.TLS() && u.Public() {
		d.warn(d.place("telemetry.otlp"), "telemetry.otlp", "the headers go to %s without encryption", u.Host)
	}
	for i, id := range t.OTLPPropagate {
		d.checkName(fmt.Sprintf("telemetry.otlp_propagate[%d]", i), string(id), known)
	}
}

// checkHeaders refuses invalid headers. at is their key, with its dot.
func (d *decoder) checkHeaders(at string, headers map[string]Secret) {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if v := headers[name].Reveal(); !headerName().MatchString(name) || strings.ContainsFunc(v, unicode.IsControl) {
			d.problem(at+name, "the name of a header, and a value on one line", "it cannot be sent")
		}
	}
}

// checkClickHouse refuses a table name that is not a plain name.
func (d *decoder) checkClickHouse(t *Telemetry) {
	for _, n := range [...]struct{ key, table string }{{"telemetry.clickhouse_table", t.ClickHouseTable}, {"telemetry.clickhouse_events_table", t.ClickHouseEventsTable}} {
		if !tableName().MatchString(n.table) {
			d.problem(n.key, "a name, or database.name, of letters, digits and underscores", "%q is none", n.table)
		}
	}
	if t.ClickHouseTable == t.ClickHouseEventsTable {
		d.problem("telemetry.clickhouse_events_table", "another table than telemetry.clickhouse_table", "%q", t.ClickHouseTable)
	}
	if t.ClickHouseInterval < 100*time.Millisecond {
		d.problem("telemetry.clickhouse_interval", "at least 100ms", "%s", t.ClickHouseInterval)
	}
	if u := t.ClickHouse; t.ClickHousePassword.IsSet() && u.Host != "" && !u.TLS() && u.Public() {
		d.warn(d.place("telemetry.clickhouse"), "telemetry.clickhouse", "the password goes to %s without encryption", u.Host)
	}
}

// checkObjectStore refuses a store that cannot be reached, and names that would need escaping in its URLs.
func (d *decoder) checkObjectStore(s *ObjectStore) {
	const at = "telemetry.object_store."
	if s.Endpoint.Host == "" {
		return
	}
	for _, n := range [...]struct {
		key, value string
		form       *regexp.Regexp
		expected   string
	}{
		{"bucket", s.Bucket, bucketName(), "a name of 3 to 63 letters in lower case, digits, dots and hyphens"},
		{"prefix", s.Prefix, objectPrefix(), "folders of letters, digits, dots, hyphens and underscores, none of which begins with a dot"},
		{"region", s.Region, regionName(), "letters, digits and hyphens"},
	} {
		if !n.form.MatchString(n.value) {
			d.problem(at+n.key, n.expected, "%q is none", n.value)
		}
	}
	for _, k := range [...]struct {
		key    string
		secret Secret
	}{{"access_key", s.AccessKey}, {"secret_key", s.SecretKey}} {
		if !k.secret.IsSet() {
			d.problem(at+k.key, "one, since there is an endpoint", "there is none")
		}
	}
	if s.Endpoint.Path != "" {
		d.problem(at+"endpoint", "an address without a path: the bucket is put behind it", "%q", s.Endpoint.Path)
	}
	if !s.Endpoint.TLS() && s.Endpoint.Public() {
		d.warn(d.place(at+"endpoint"), at+"endpoint", "usage goes to %s without encryption", s.Endpoint.Host)
	}
}

var (
	bucketName   = pattern(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)
	objectPrefix = pattern(`^([A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}/?){0,4}$`)
	regionName   = pattern(`^[A-Za-z0-9-]{1,64}$`)
)

var tableName = pattern(`^([A-Za-z_][A-Za-z0-9_]{0,63}\.)?[A-Za-z_][A-Za-z0-9_]{0,63}$`)

// headerName is the form of a header's name in HTTP/2 and gRPC.
var headerName = pattern(`^[A-Za-z0-9!#$%&'*+.^_` + "`" + `|~-]{1,128}$`)

// checkStore refuses an invalid ledger location: keeping money in another place than the operator named is worse than not starting.
func (d *decoder) checkStore(cfg *Config) {
	d.checkCache(cfg.Store)
	d.checkVectors(cfg)
	if cfg.Store.Ledger.Postgres() && cfg.DataPath == DataPathModule {
		d.problem("store.ledger", "sqlite://path", "with data_path: module the ledger is a file; data_path: extproc can keep it in PostgreSQL")
	}
}

// checkVectors refuses an invalid vector store.
func (d *decoder) checkVectors(cfg *Config) {
	s := &cfg.Store
	if s.Vectors.Postgres() && cfg.DataPath == DataPathModule {
		d.problem("store.vectors", "memory", "with data_path: module vectors are kept in memory; data_path: extproc can keep them in PostgreSQL")
	}
	if s.VectorsTimeout <= 0 || s.VectorsTimeout > time.Second {
		d.problem("store.vectors_timeout", "more than 0, at most 1s", "not a time limit of a lookup")
	}
}

// checkCache refuses a cache that this version does not support.
func (d *decoder) checkCache(s Store) {
	path, file := strings.CutPrefix(s.Cache, "sqlite://")
	switch {
	case s.Cache == "memory":
	case redisAddress(s.Cache):
		d.checkRedis("store.cache", s.Cache, s.CachePassword, s.CacheCA, s.CacheTimeout)
	case !file || path == "":
		d.problem("store.cache", "memory, sqlite://path or redis://host", "not a store of a known kind")
	case s.Cache == string(s.Ledger):
		d.problem("store.cache", "a file of its own", "it is the ledger's")
	}
}

// CacheFile returns the path of the stored answers, with $BARDO_HOME replaced by home; "" if they are in memory only.
func (s Store) CacheFile(home string) string {
	path, ok := strings.CutPrefix(s.Cache, "sqlite://")
	if !ok {
		return ""
	}
	return strings.Replace(path, "$BARDO_HOME", home, 1)
}

// LedgerName returns the path of the ledger's file, with $BARDO_HOME replaced by home, or the URL of its PostgreSQL database.
func (s Store) LedgerName(home string) string {
	if s.Ledger.Postgres() {
		return string(s.Ledger)
	}
	return strings.Replace(strings.TrimPrefix(string(s.Ledger), "sqlite://"), "$BARDO_HOME", home, 1)
}

// LedgerFile returns a path in the directory of the ledger's file or, if the ledger is in PostgreSQL, in home.
func (s Store) LedgerFile(home string) string {
	if s.Ledger.Postgres() {
		return filepath.Join(home, "ledger")
	}
	return s.LedgerName(home)
}

// pattern compiles a regular expression on first use: most commands check no configuration.
func pattern(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
