package config

import (
	"time"

	"bardo.money/gateway/internal/baseurl"
)

// Prompts configures the prompt log. The zero value disables it.
type Prompts struct {
	Keys     []string      `key:"keys" doc:"Ids of the API keys whose requests and answers are kept, masked; never those that are confidential, private, or for an enclave. Their answers carry X-Bardo-Prompt-Log. Without it, none are kept."`
	File     string        `key:"file" doc:"File that they are kept in, encrypted; a relative one is in the state directory. bardo prompts reads it."`
	Secret   Secret        `key:"encryption_key" doc:"What the file is encrypted with, of at least 32 characters. Required with file. Entries of another one cannot be read any more."`
	MaxAge   time.Duration `key:"max_age" default:"168h" doc:"Entries of the file that are older are deleted, while the gateway runs."`
	MaxBytes int64         `key:"max_bytes" default:"67108864" min:"1048576" max:"1099511627776" doc:"Size of all entries of the file, beyond which the oldest are deleted."`

	OTLP        URL               `key:"otlp" doc:"Address of an OpenTelemetry receiver of logs (OTLP over HTTP, in JSON; /v1/logs is put behind its path), which gets them besides the file or in its place. It must be https, or on this machine. Only with data_path: extproc."`
	OTLPHeaders map[string]Secret `key:"otlp_headers" doc:"Headers that these logs are sent with, such as the authorization of a hosted receiver."`
}

// minKey is the minimum length of a prompt log's key, in characters.
const minKey = 32

// checkPrompts refuses a prompt log without a location or without encryption.
func (d *decoder) checkPrompts(cfg *Config) {
	const at = "telemetry.prompts."
	p := &cfg.Telemetry.Prompts
	switch {
	case len(p.Keys) > 0 && p.File == "" && p.OTLP.Host == "":
		d.problem(at+"keys", "none, or a file or a receiver (file, otlp)", "there is no place that prompts are kept in")
	case p.File != "" && (!p.Secret.IsSet() || !isMask(p.Secret) && len(p.Secret.Reveal()) < minKey):
		d.problem(at+"encryption_key", "at least 32 characters, with file", "prompts are not kept without encryption")
	}
	if p.MaxAge < time.Minute {
		d.problem(at+"max_age", "at least 1m", "%s", p.MaxAge)
	}
	if p.OTLP.Host == "" {
		return
	}
	d.checkHeaders(at+"otlp_headers.", p.OTLPHeaders)
	if !p.OTLP.TLS() && !baseurl.Loopback(p.OTLP.Hostname()) {
		d.problem(at+"otlp", "an https URL, or one of this machine", "it is without encryption")
	}
	if cfg.DataPath == DataPathModule {
		d.problem("data_path", string(DataPathExtproc)+", with telemetry.prompts.otlp", "Envoy's process sends no logs: use telemetry.prompts.file")
	}
}
