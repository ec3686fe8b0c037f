package ui

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
)

//go:embed templates assets
var files embed.FS

// view is a template's data, without the viewer.
type view struct {
	Title string
	Data  any
}

// pageView adds what every page shows.
type pageView struct {
	view

	Page   string // name of the template
	Viewer *viewer
	Now    time.Time
}

// pages are the templates by name, each within the layout. They are parsed on first use, so that commands do not parse them.
var pages = sync.OnceValue(func() map[string]*template.Template {
	return parsePages("login", "overview", "live", "requests", "request", "providers", "cache", "keys", "privacy", "playground", "error")
})

func parsePages(names ...string) map[string]*template.Template {
	layout := template.Must(template.New("layout").Funcs(functions).ParseFS(files, "templates/layout.html", "templates/parts.html"))
	all := map[string]*template.Template{}
	for _, name := range names {
		all[name] = template.Must(template.Must(layout.Clone()).ParseFS(files, "templates/"+name+".html"))
	}
	return all
}

// render writes a page. If its template fails, nothing of it is sent.
func (s *Server) render(w http.ResponseWriter, status int, v *viewer, name string, d view) {
	var b bytes.Buffer
	if err := pages()[name].ExecuteTemplate(&b, "layout", pageView{view: d, Page: name, Viewer: v, Now: s.o.Now().UTC()}); err != nil {
		s.o.Log.Error("a page of the dashboard cannot be made", "page", name, "error", err)
		http.Error(w, "The page cannot be shown.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = b.WriteTo(w) // fails only if the browser has disconnected
}

// functions are the template functions.
var functions = template.FuncMap{
	"asset": func(name string) string { return "/ui/assets/" + assets.named[name] },
	"usd":   usd, "pico": pico, "count": count, "millis": millis, "bytes": byteCount, "clock": clock, "stamp": stamp, "ago": ago,
	"verdict": verdict, "pct": func(f float64) string { return strconv.FormatFloat(100*f, 'f', 1, 64) + "%" },
	"num":   func(f float64) string { return strconv.FormatFloat(f, 'f', 2, 64) },
	"words": func(s string) string { return strings.ReplaceAll(s, "_", " ") },
	"join":  strings.Join, "date": func(t time.Time) string { return t.UTC().Format("2 Jan 2006") },
	"layerName": func(l string) string { return layerNames[l] }, "tiers": func() []policy.Tier { return tiers },
	"sums":  func(rows []ledger.UsageRow, total policy.Micro, by string) sums { return sums{rows, total, by} },
	"share": share, "plain": func(m policy.Micro) string { return strings.TrimRight(strings.TrimRight(m.String(), "0"), ".") },
}

// sums is a table of usage.
type sums struct {
	Rows  []ledger.UsageRow
	Total policy.Micro
	By    string
}

// usd formats an amount: cents, and more digits for small amounts.
func usd(m policy.Micro) string {
	sign := ""
	if m < 0 {
		sign, m = "−", -m
	}
	text := m.String()
	if whole, fraction, ok := strings.Cut(text, "."); ok {
		fraction = strings.TrimRight(fraction, "0")
		if len(fraction) < 2 {
			fraction += strings.Repeat("0", 2-len(fraction))
		}
		if m >= 100_000_000 { // from 100 dollars on, cents suffice
			fraction = fraction[:2]
		}
		text = whole + "." + fraction
	}
	return sign + "$" + text
}

// pico formats an exact amount.
func pico(p policy.Pico) string {
	text := p.String()
	whole, fraction, _ := strings.Cut(text, ".")
	fraction = strings.TrimRight(fraction, "0")
	if len(fraction) < 2 {
		fraction += strings.Repeat("0", 2-len(fraction))
	}
	return "$" + whole + "." + fraction
}

// count formats an integer with thin spaces between thousands.
func count(n any) string {
	text := fmt.Sprint(n)
	digits := strings.TrimPrefix(text, "-")
	var b strings.Builder
	for i, c := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteString("\u202f")
		}
		b.WriteRune(c)
	}
	return strings.TrimSuffix(text, digits) + b.String()
}

// millis formats a duration in milliseconds.
func millis(ms int64) string {
	switch {
	case ms >= 60_000:
		return fmt.Sprintf("%dm %02ds", ms/60_000, ms/1000%60)
	case ms >= 1000:
		return fmt.Sprintf("%.1f s", float64(ms)/1000)
	}
	return fmt.Sprintf("%d ms", ms)
}

func byteCount(n int64) string {
	const unit = 1024
	switch {
	case n >= unit*unit:
		return fmt.Sprintf("%.1f MiB", float64(n)/unit/unit)
	case n >= unit:
		return fmt.Sprintf("%.1f KiB", float64(n)/unit)
	}
	return fmt.Sprintf("%d B", n)
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05") }

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

// ago formats the time between t and now.
func ago(now, t time.Time) string {
	switch d := now.Sub(t); {
	case d < time.Minute:
		return "just now"
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	default:
		return fmt.Sprintf("%d days ago", int(d.Hours()/24))
	}
}

// share is a part of a whole in percent; 0 if whole is not positive.
func share(part, whole policy.Micro) int {
	if whole <= 0 {
		return 0
	}
	return int(max(min(part*100/whole, 100), 0))
}

// assetList is the static files under names that contain a hash of their content, so that browsers can cache them forever.
type assetList struct {
	named   map[string]string // hashed name, by file name
	content map[string][]byte // content, by hashed name
}

var assets = readAssets("app.css", "app.js", "playground.js", "icon.svg")

func readAssets(names ...string) assetList {
	l := assetList{named: map[string]string{}, content: map[string][]byte{}}
	for _, name := range names {
		b, err := files.ReadFile("assets/" + name)
		if err != nil {
			panic(err) //nolint:forbidigo // the file is embedded
		}
		const digits = 6
		sum := sha256.Sum256(b)
		ext := path.Ext(name)
		l.named[name] = strings.TrimSuffix(name, ext) + "-" + hex.EncodeToString(sum[:digits]) + ext
		l.content[l.named[name]] = b
	}
	return l
}

func serveAsset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	b, ok := assets.content[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	_, _ = w.Write(b)
}
