// Package export sends spans to where OpenTelemetry's own variables say.
package export

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/quorate/quorate/internal/tracing"
)

// flushTime bounds the last export.
const flushTime = 3 * time.Second

// Start returns a tracer and what ends it. Without one of the variables
// OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or
// OTEL_TRACES_EXPORTER=otlp the tracer is nil: off. The sampler, headers, certificates and
// timeouts are set by the further variables of OpenTelemetry. node names this process.
func Start(ctx context.Context, env func(string) string, node, version string, log *slog.Logger) (*tracing.Tracer, func(), error) {
	off := func() {}
	on, err := wanted(env)
	if !on || err != nil {
		return nil, off, err
	}
	exporter, err := exporterOf(ctx, env)
	if err != nil {
		return nil, off, fmt.Errorf("traces: %w", err)
	}
	res, err := resource.New(ctx, resource.WithAttributes(
		attribute.String("service.name", "quorate"), attribute.String("service.instance.id", node), attribute.String("service.version", version),
	), resource.WithFromEnv())
	if err != nil {
		return nil, off, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces not exported", "err", err) }))
	p := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(res))
	return tracing.New(p), func() {
		ctx, cancel := context.WithTimeout(context.Background(), flushTime)
		defer cancel()
		if err := p.Shutdown(ctx); err != nil {
			log.Warn("traces not exported", "err", err)
		}
	}, nil
}

// wanted reports whether the environment asks for an exporter.
func wanted(env func(string) string) (bool, error) {
	if strings.EqualFold(env("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	switch e := env("OTEL_TRACES_EXPORTER"); e {
	case "none":
		return false, nil
	case "otlp":
		return true, nil
	case "":
		return env("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "", nil
	default:
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER=%s: must be otlp or none", e)
	}
}

func exporterOf(ctx context.Context, env func(string) string) (sdk.SpanExporter, error) {
	protocol := env("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
	if protocol == "" {
		protocol = env("OTEL_EXPORTER_OTLP_PROTOCOL")
	}
	switch protocol {
	case "", "http/protobuf":
		return otlptracehttp.New(ctx)
	case "grpc":
		return otlptracegrpc.New(ctx)
	}
	return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL=%s: must be http/protobuf or grpc", protocol)
}
