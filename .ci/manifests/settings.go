package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// hub is how one container of a hub is started.
type hub struct {
	name string
	args []string // after the image's own command, which is serve
	env  []string
}

// settings asks `binary config` about every hub of the files. It refuses names that it does not know and values that
// make no sense, alone or together.
func settings(ctx context.Context, binary string, files []string) error {
	scratch, err := os.MkdirTemp("", "manifests")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	secret := filepath.Join(scratch, "secret")
	if err := os.WriteFile(secret, bytes.Repeat([]byte("s"), 64), 0o600); err != nil {
		return err
	}
	var errs []error
	for _, file := range files {
		hubs, err := hubs(ctx, file)
		if err == nil && len(hubs) == 0 {
			err = fmt.Errorf("%s: no hub in it", file)
		}
		errs = append(errs, err)
		for _, h := range hubs {
			if err := h.ask(ctx, binary, secret); err != nil {
				errs = append(errs, fmt.Errorf("%s: %s: %w", file, h.name, err))
				continue
			}
			fmt.Printf("ok: %s: %s: %d settings\n", file, h.name, len(h.env)+len(h.args))
		}
	}
	return errors.Join(errs...)
}

// ask runs config with nothing but what the container would have; files of secrets are replaced by one that exists.
func (h hub) ask(ctx context.Context, binary, secret string) error {
	args := []string{"config"}
	for i, a := range h.args {
		if i == 0 && a == "serve" {
			continue
		}
		args = append(args, a)
	}
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = []string{"CINNABAR_DATA_DIR=/data"} // the image's own
	for _, kv := range h.env {
		name, value, _ := strings.Cut(kv, "=")
		if strings.HasPrefix(value, "@/") {
			value = "@" + secret
		}
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// hubs finds the hubs of a file by their image.
func hubs(ctx context.Context, file string) ([]hub, error) {
	if c, err := readCluster([]string{file}); err == nil && len(c.sets) > 0 {
		var out []hub
		for _, set := range c.sets {
			for n := range int(*set.Spec.Replicas) {
				h := hub{name: fmt.Sprintf("%s-%d", set.Name, n), args: set.Spec.Template.Spec.Containers[0].Args}
				for name, value := range podSettings(set, n) {
					h.env = append(h.env, name+"="+value)
				}
				out = append(out, h)
			}
		}
		return out, nil
	}
	p, err := loadCompose(ctx, file)
	if err != nil {
		return nil, err
	}
	var out []hub
	for _, name := range p.ServiceNames() {
		if s := p.Services[name]; s.Image == "cinnabar" {
			out = append(out, hub{name: name, args: s.Command, env: environment(s)})
		}
	}
	return out, nil
}
