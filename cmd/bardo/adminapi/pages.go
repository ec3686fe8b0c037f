package adminapi

import (
	"net/http"
	"net/http/pprof"

	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/origin"
)

// NoPages refuses requests of foreign web pages to the admin listener, including those that use DNS rebinding.
func NoPages(config func() *config.Config, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cfg := config()
		rule := origin.Rule{AnyIP: true, Hosts: []string{
			origin.Hostname(string(cfg.Listen.Admin)), origin.Hostname(string(cfg.XDS.Admin)), origin.Hostname(cfg.Listen.PublicURL.Host),
		}}
		q := origin.Request{Host: r.Host, Origin: r.Header.Get("Origin"), Site: r.Header.Get("Sec-Fetch-Site")}
		if why := rule.Refuses(q); why != "" {
			what := why + ": name it localhost, by its address, or by the host of listen.admin or listen.public_url"
			write(w, http.StatusForbidden, Problem{ProblemDetails{Code: string(fault.KeyRestricted), Message: what}})
			return
		}
		h.ServeHTTP(w, r)
	})
}

// Profiles registers the pprof handlers.
func Profiles(handle func(pattern string, h http.HandlerFunc)) {
	handle("GET /debug/pprof/", pprof.Index)
	handle("GET /debug/pprof/profile", pprof.Profile)
	handle("GET /debug/pprof/symbol", pprof.Symbol)
	handle("GET /debug/pprof/trace", pprof.Trace)
	handle("GET /debug/pprof/cmdline", pprof.Cmdline)
}
