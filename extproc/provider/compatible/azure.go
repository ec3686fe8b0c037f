package compatible

import (
	"net/url"
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
)

// Azure serves OpenAI's models as deployments in the operator's account. The path names the deployment, the query the API version, and the
// header api-key carries the key. A base URL that ends in /openai/v1 is the newer API, whose paths have neither deployment nor version.
var Azure = Adapter{
	kind: kind.Kind{
		Name: "azure", Doc: "Azure OpenAI: the models of a resource, by the names of their deployments.", URLVariable: "AZURE_OPENAI_ENDPOINT",
		Variables: []string{"AZURE_OPENAI_API_KEY"}, APIVersion: "2024-10-21",
		Endpoints: []kind.Endpoint{kind.ImageGeneration, kind.ImageEdit, kind.Speech, kind.Transcription, kind.Translation},
	},
	options: func(o *openai.RequestOptions, req *chat.Request, to *policy.Resolution) {
		o.ForOpenAIModels(req, *to)
		o.Extras = openai.OpenAIExtras
	},
	address: deployed,
	embeds:  true,
}

// deployed sets the path of a call to a deployment.
func deployed(call *provider.Call, at provider.Endpoint, deployment string) {
	call.Header = slices.DeleteFunc(call.Header, func(f header.Field) bool { return f.Name == "authorization" })
	if at.Key.IsSet() {
		call.Header = append(call.Header, header.Field{Name: "api-key", Value: at.Key.Reveal()})
	}
	if strings.HasSuffix(at.BasePath, "/openai/v1") {
		return
	}
	under := "/openai"
	if deployment != "" {
		under += "/deployments/" + url.PathEscape(deployment)
	}
	call.Path = at.BasePath + under + strings.TrimPrefix(call.Path, at.BasePath) + "?api-version=" + url.QueryEscape(at.APIVersion)
}
