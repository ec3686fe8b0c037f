// The official OpenAI SDK for Go. It is built against two of its versions: go.mod has the current one, old.mod one that takes an
// empty event for a broken one (K-40).
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"

	"bardo.money/gateway/e2e/sdk/go/driver"
)

func main() {
	t, err := driver.Open()
	if err == nil {
		err = t.Run("github.com/openai/openai-go/v3", sdk{t}.cases())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type sdk struct{ driver.Target }

func (s sdk) cases() []driver.Case {
	return append([]driver.Case{
		driver.Do("chat", s.chat), driver.Do("stream", s.stream), driver.Do("base-url", s.baseURL), driver.Do("tools", s.tools),
		driver.Do("tools-stream", s.toolsStream), driver.Do("loop", s.loop), driver.Do("thinks", s.thinks), driver.Do("unicode", s.unicode),
		driver.Do("unicode-tools", s.unicodeTools), driver.Do("large", s.large), driver.Do("retry", s.retry), driver.Do("cancel", s.cancel),
		driver.Do("heartbeat", s.heartbeat("quiet")), driver.Do("heartbeat2", s.heartbeat("quiet2")),
		{Name: "dies", Run: s.dies("dies")},
		{Name: "dies2", Run: s.dies("dies2")},
	}, s.Errors(s.refused)...)
}

func (s sdk) client(more ...option.RequestOption) openai.Client {
	return openai.NewClient(append([]option.RequestOption{
		option.WithBaseURL(s.URL + "/v1"), option.WithAPIKey(s.Key), option.WithMaxRetries(0),
	}, more...)...)
}

func (s sdk) ask(behaviour string, messages ...openai.ChatCompletionMessageParamUnion) openai.ChatCompletionNewParams {
	if messages == nil {
		messages = []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hi")}
	}
	return openai.ChatCompletionNewParams{Model: s.Model(behaviour), Messages: messages}
}

func withTools(p openai.ChatCompletionNewParams) openai.ChatCompletionNewParams {
	p.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
		Name: driver.Tool, Description: openai.String(driver.Description), Parameters: driver.Schema,
	})}
	return p
}

// create returns the only choice of a whole answer.
func (s sdk) create(ctx context.Context, p openai.ChatCompletionNewParams, more ...option.RequestOption) (openai.ChatCompletionChoice, error) {
	c := s.client(more...)
	got, err := c.Chat.Completions.New(ctx, p)
	if err != nil {
		return openai.ChatCompletionChoice{}, err
	}
	if len(got.Choices) != 1 {
		return openai.ChatCompletionChoice{}, fmt.Errorf("%d choices", len(got.Choices))
	}
	return got.Choices[0], nil
}

// read returns what a stream adds up to, as far as it came, and its thoughts.
func (s sdk) read(ctx context.Context, p openai.ChatCompletionNewParams) (acc openai.ChatCompletionAccumulator, thoughts string, err error) {
	c := s.client()
	p.StreamOptions.IncludeUsage = openai.Bool(true)
	stream := c.Chat.Completions.NewStreaming(ctx, p)
	defer stream.Close()
	for stream.Next() {
		chunk := stream.Current()
		if !acc.AddChunk(chunk) {
			return acc, thoughts, errors.New("a chunk does not fit those before")
		}
		for _, ch := range chunk.Choices {
			thoughts += text(ch.Delta.JSON.ExtraFields["reasoning_content"].Raw())
		}
	}
	if stream.Err() == nil && len(acc.Choices) != 1 {
		return acc, thoughts, fmt.Errorf("%d choices", len(acc.Choices))
	}
	return acc, thoughts, stream.Err()
}

// text is a field that the SDK does not know, as JSON.
func text(raw string) string {
	var s string
	_ = json.Unmarshal([]byte(raw), &s) // null and nothing are ""
	return s
}

func says(m openai.ChatCompletionMessage, want string) error { return driver.Same(m.Content, want) }

func calls(ch openai.ChatCompletionChoice, cities ...string) error {
	got := make([]driver.Call, 0, len(ch.Message.ToolCalls))
	for _, c := range ch.Message.ToolCalls {
		got = append(got, driver.Call{ID: c.ID, Name: c.Function.Name, Args: c.Function.Arguments})
	}
	return errors.Join(driver.Same(ch.FinishReason, "tool_calls"), driver.Calls(got, cities...))
}

func (s sdk) chat(ctx context.Context) error {
	c := s.client()
	got, err := c.Chat.Completions.New(ctx, s.ask("chat"))
	if err != nil {
		return err
	}
	return errors.Join(says(got.Choices[0].Message, driver.Hello), driver.Same(got.Choices[0].FinishReason, "stop"),
		driver.Same(got.Model, s.Model("chat")), driver.Same(got.Usage.CompletionTokens, 5), driver.Same(got.Usage.PromptTokens > 0, true))
}

func (s sdk) stream(ctx context.Context) error {
	got, _, err := s.read(ctx, s.ask("chat"))
	if err != nil {
		return err
	}
	return errors.Join(says(got.Choices[0].Message, driver.Hello), driver.Same(got.Choices[0].FinishReason, "stop"),
		driver.Same(got.Usage.CompletionTokens, 5))
}

func (s sdk) baseURL(ctx context.Context) error {
	got, err := s.create(ctx, s.ask("chat"), option.WithBaseURL(s.URL))
	return errors.Join(err, says(got.Message, driver.Hello))
}

func (s sdk) tools(ctx context.Context) error {
	got, err := s.create(ctx, withTools(s.ask("tools")))
	return errors.Join(err, says(got.Message, driver.See), calls(got, "Paris", "Rome"))
}

func (s sdk) toolsStream(ctx context.Context) error {
	got, _, err := s.read(ctx, withTools(s.ask("tools")))
	if err != nil {
		return err
	}
	return errors.Join(says(got.Choices[0].Message, driver.See), calls(got.Choices[0], "Paris", "Rome"))
}

func (s sdk) loop(ctx context.Context) error {
	call, err := s.create(ctx, withTools(s.ask("loop")))
	if err := errors.Join(err, calls(call, "Paris")); err != nil {
		return err
	}
	history := withTools(s.ask("loop", openai.UserMessage("hi"), call.Message.ToParam(), openai.ToolMessage("sunny", call.Message.ToolCalls[0].ID)))
	whole, err := s.create(ctx, history)
	if err := errors.Join(err, says(whole.Message, driver.Sunny)); err != nil {
		return err
	}
	got, _, err := s.read(ctx, history)
	if err != nil {
		return err
	}
	return says(got.Choices[0].Message, driver.Sunny)
}

func (s sdk) thinks(ctx context.Context) error {
	whole, err := s.create(ctx, s.ask("thinks"))
	thought := text(whole.Message.JSON.ExtraFields["reasoning_content"].Raw())
	if err := errors.Join(err, driver.Same(thought, driver.Thought), says(whole.Message, driver.Hello)); err != nil {
		return err
	}
	got, thought, err := s.read(ctx, s.ask("thinks"))
	if err != nil {
		return err
	}
	return errors.Join(driver.Same(thought, driver.Thought), says(got.Choices[0].Message, driver.Hello))
}

// both asks for a whole answer and for a stream, and checks both.
func (s sdk) both(ctx context.Context, p openai.ChatCompletionNewParams, check func(openai.ChatCompletionChoice) error) error {
	whole, err := s.create(ctx, p)
	if err := errors.Join(err, check(whole)); err != nil {
		return err
	}
	got, _, err := s.read(ctx, p)
	if err != nil {
		return err
	}
	return check(got.Choices[0])
}

func (s sdk) unicode(ctx context.Context) error {
	return s.both(ctx, s.ask("unicode", openai.UserMessage(s.Unicode)), func(ch openai.ChatCompletionChoice) error {
		return says(ch.Message, s.Unicode)
	})
}

func (s sdk) unicodeTools(ctx context.Context) error {
	return s.both(ctx, withTools(s.ask("unicode-tools")), func(ch openai.ChatCompletionChoice) error { return calls(ch, s.Unicode) })
}

func (s sdk) large(ctx context.Context) error {
	return s.both(ctx, s.ask("large", openai.UserMessage(driver.Prompt())), func(ch openai.ChatCompletionChoice) error {
		return driver.Same(len(ch.Message.Content), driver.Large)
	})
}

func (s sdk) retry(ctx context.Context) error {
	got, err := s.create(ctx, s.ask("retry"), option.WithMaxRetries(1))
	return errors.Join(err, says(got.Message, driver.Hello))
}

func (s sdk) cancel(ctx context.Context) error {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	c := s.client()
	stream := c.Chat.Completions.NewStreaming(ctx, s.ask("slow"))
	defer stream.Close()
	for stream.Next() {
		if ch := stream.Current().Choices; len(ch) > 0 && ch[0].Delta.Content != "" {
			return nil
		}
	}
	return fmt.Errorf("it ended without a token: %w", stream.Err())
}

func (s sdk) heartbeat(behaviour string) func(context.Context) error {
	return func(ctx context.Context) error {
		got, _, err := s.read(ctx, s.ask(behaviour))
		if err != nil {
			return err
		}
		return says(got.Choices[0].Message, driver.Tokens)
	}
}

func (s sdk) dies(behaviour string) func(context.Context) (driver.Raised, error) {
	return func(ctx context.Context) (driver.Raised, error) {
		got, _, err := s.read(ctx, s.ask(behaviour))
		if err == nil || len(got.Choices) != 1 {
			return driver.Raised{}, fmt.Errorf("%d choices, then %w", len(got.Choices), err)
		}
		return driver.Raised{Exception: fmt.Sprintf("%T", err)}, says(got.Choices[0].Message, driver.Tokens)
	}
}

// refused is what is raised for a request that is refused.
func (s sdk) refused(ctx context.Context, key, model string, stream bool) (driver.Raised, error) {
	c := s.client(option.WithAPIKey(key))
	p := openai.ChatCompletionNewParams{Model: model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hi")}}
	var err error
	if stream {
		answer := c.Chat.Completions.NewStreaming(ctx, p)
		defer answer.Close()
		answer.Next()
		err = answer.Err()
	} else {
		_, err = c.Chat.Completions.New(ctx, p)
	}
	var e *openai.Error
	if !errors.As(err, &e) {
		return driver.Raised{}, fmt.Errorf("raised %T: %w", err, err)
	}
	return driver.Raised{Exception: fmt.Sprintf("%T", e), Status: e.StatusCode}, driver.Same(e.Message != "", true)
}
