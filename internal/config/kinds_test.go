package config_test

import (
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
)

// kinds has kinds of providers for every kind of section.
var kinds = []kind.Kind{
	{Name: "blockrun", Section: kind.OwnSection, BaseURL: "https://api.blockrun.ai/v1", Format: "openai", List: "blockrun", Broad: true},
	vendor("anthropic", "anthropic", "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY"),
	vendor("openai", "openai", "https://api.openai.com/v1", "OPENAI_API_KEY"),
	vendor("google", "gemini", "https://generativelanguage.googleapis.com/v1beta", "GOOGLE_API_KEY", "GEMINI_API_KEY"),
	{
		Name: "openrouter", Section: kind.OwnSection, BaseURL: "https://openrouter.ai/api/v1", Variables: []string{"OPENROUTER_API_KEY"}, Format: "openai",
		List: "openrouter", Broad: true,
	},
	{
		Name: "venice", Section: kind.OwnSection, BaseURL: "https://api.venice.ai/api/v1", Variables: []string{"VENICE_API_KEY"}, Format: "openai",
		List: "venice", Private: true, Traits: kind.Traits{Lacks: []policy.Feature{policy.Citations}},
	},
	{Name: "bankr", Section: kind.OwnSection, BaseURL: "https://llm.bankr.bot/v1", Variables: []string{"BANKR_API_KEY"}, Format: "openai"},
	vendor("deepseek", "openai", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
	vendor("qwen", "openai", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "DASHSCOPE_API_KEY", "QWEN_API_KEY"),
	{
		Name: "host", Section: kind.HostSection, Doc: "A host of models.", BaseURL: "https://host.example/v1", Variables: []string{"HOST_API_KEY"},
		Format: "openai", List: "openai", AnyModel: true,
	},
	{
		Name: "local", Section: kind.HostSection, Doc: "A server on this machine.", BaseURL: "http://127.0.0.1:9/v1", Variables: []string{"LOCAL_API_KEY"},
		Format: "openai", Keyless: true,
	},
	{
		Name: "cloud", Section: kind.HostSection, Doc: "A resource of the operator's.", URLVariable: "CLOUD_ENDPOINT", APIVersion: "2024-10-21",
		Variables: []string{"CLOUD_API_KEY"}, Format: "openai",
	},
	{
		Name: "regional", Section: kind.HostSection, Doc: "A cloud with regions.", BaseURL: "https://models." + kind.Region + ".cloud.example", Variables: []string{"REGIONAL_API_KEY"},
		Format: "openai", AnyModel: true,
	},
	{Name: "custom"},
	{Name: "demo"},
}

func vendor(name, format, baseURL string, variables ...string) kind.Kind {
	return kind.Kind{
		Name: name, Section: kind.VendorSection, Doc: "A vendor, on the operator's key.", BaseURL: baseURL, Variables: variables, Format: format,
	}
}
