package app_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/cinnabar-hub/cinnabar/cmd/internal/app"
)

// reference writes docs/configuration.md from the flag set.
func reference() []byte {
	var b bytes.Buffer
	b.WriteString(`# Configuration

<!-- Generated from the flags of cinnabar serve: go test -run TestReference ./cmd/internal/app -update -->

Every setting of ` + "`cinnabar serve`" + ` has one name and can be given in three places. The nearest one wins:

1. a flag: ` + "`--data-dir /var/lib/cinnabar`" + `
2. the environment: ` + "`CINNABAR_DATA_DIR=/var/lib/cinnabar`" + `; repeatable settings take a comma-separated list
3. the YAML file that ` + "`--config`" + ` names: ` + "`data-dir: /var/lib/cinnabar`" + `; not nested but for [issuers](#issuers), repeatable settings take a list
4. the default

An unknown name or a malformed value is an error that names it; nothing is ignored. ` + "`cinnabar config`" + ` prints what is in
effect and where each value comes from.

- A **secret** is given as itself or as ` + "`@/path/to/file`" + `, which keeps it out of the process list; a line break at the
  file's end is not part of it. ` + "`@@`" + ` at the beginning stands for one ` + "`@`" + `. Files of token keys
  are read again on ` + "`SIGHUP`" + `, others at the start only.
- A **size** is bytes, or has a unit: ` + "`512KiB`, `1MiB`, `1GiB`" + ` (` + "`1MB`" + ` is a million).
- A **duration** is written ` + "`500ms`, `15s`, `10m`, `168h`" + `.
- An **address** to listen on is ` + "`host:port`, `:port`, `unix:PATH`" + ` (made with permission 0660; a stale socket is removed),
  ` + "`fd:N`" + ` (a socket that the parent process opened) or ` + "`systemd`" + `. Sockets passed by systemd are also used when
  ` + "`--listen`" + ` is not given; one with ` + "`FileDescriptorName=admin`" + ` becomes the admin listener.

For drop-in use, ` + "`MERCURE_PUBLISHER_JWT_KEY`, `MERCURE_PUBLISHER_JWT_ALG`, `MERCURE_SUBSCRIBER_JWT_KEY`" + ` and
` + "`MERCURE_SUBSCRIBER_JWT_ALG`" + ` are read as well; a ` + "`CINNABAR_`" + ` name wins over them, and they win over the file.

The hub refuses to start, and says why, with: no key for either role and no issuer (` + "`--dev`" + ` makes them); an issuer without a name
of the hub (` + "`--public-url` or `--resource-identifier`" + `); ` + "`--classic=false`" + ` without an issuer, or with keys of the roles; a PEM key with an HMAC
algorithm; an HMAC secret under 32 bytes (unless allowed); ` + "`--cors-origin '*'`" + ` together with ` + "`--publish-origin` or `--cookie-name`" + `,
which only make sense with cookies, and browsers send none to a hub that allows any origin; ` + "`--dev`" + ` on an address that
other machines can reach; ` + "`--nats-url`" + ` together with ` + "`--cluster-listen`" + `, or either with ` + "`--transport memory`" + `; a cluster
without a shared secret of 16 bytes or more; an unknown name.
`)
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	app.NewSettings(fs)
	group := ""
	fs.VisitAll(func(f *pflag.Flag) {
		if g := f.Annotations["cinnabar_group"][0]; g != group {
			group = g
			fmt.Fprintf(&b, "\n## %s\n\n| Flag | Environment | Value | Default | Meaning |\n|---|---|---|---|---|\n", group)
		}
		kind, usage := pflag.UnquoteUsage(f)
		if kind == "" || f.Value.Type() == "bool" {
			kind = "true, false"
		}
		value := f.DefValue
		if value != "" {
			value = "`" + value + "`"
		}
		env := "CINNABAR_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		cell := strings.NewReplacer("|", ", ", "\n", " ").Replace
		fmt.Fprintf(&b, "| `--%s` | `%s` | %s | %s | %s |\n", f.Name, env, cell(kind), value, cell(usage))
	})
	b.WriteString(issuersReference)
	return b.Bytes()
}

const issuersReference = `
## Issuers

The flags make one issuer of draft-08 tokens. Several, or one with several keys or a part of the rights, are listed in the file of
` + "`--config`" + `, and there alone; the one of the flags comes on top.

` + "```yaml" + `
public-url: https://hub.example.com/.well-known/mercure
issuers:
  - issuer: https://app.example.com       # what its tokens have as iss, byte by byte
    jwt-key: '@/run/secrets/app'          # a secret or a PEM public key
    jwt-alg: HS256                        # the default
  - issuer: https://batch.example.com
    keys:                                 # several, for a rotation
      - {key: '@/etc/cinnabar/batch-2025.pem', alg: ES256, kid: '2025'}
      - {key: '@/etc/cinnabar/batch-2026.pem', alg: ES256, kid: '2026'}
    roles: [publish]                      # publish, subscribe; both unless given
  - issuer: https://id.example.com        # nothing more: the keys are found by its metadata
    algorithms: [ES256]                   # of a set; EdDSA, ES256, ES384, ES512, RS256 and PS256 unless given
  - issuer: https://old.example.com
    jwks-url: https://old.example.com/keys
` + "```" + `

An issuer is an ` + "`https://`" + ` URL without query and fragment; ` + "`http://`" + ` is for localhost, with a key or a set. See
[authorise](authorise.md#issuers-of-draft-08-tokens).
`

func TestReferenceIsWhatTheFlagsSay(t *testing.T) {
	path := filepath.Join("..", "..", "..", "docs", "configuration.md")
	want := reference()
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("docs/configuration.md differs from the flags: run go test -run TestReference ./cmd/internal/app -update")
	}
}
