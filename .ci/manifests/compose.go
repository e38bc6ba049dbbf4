package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

// loadCompose reads a Compose file as `docker compose` does: schema, interpolation from the environment, merges.
func loadCompose(ctx context.Context, file string) (*types.Project, error) {
	o, err := cli.NewProjectOptions([]string{file}, cli.WithName("cinnabar"), cli.WithOsEnv, cli.WithResolvedPaths(true))
	if err != nil {
		return nil, err
	}
	p, err := o.LoadProject(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for name, s := range p.Services {
		for key, value := range s.Environment {
			if value == nil {
				return nil, fmt.Errorf("%s: %s: %s has no value", file, name, key)
			}
		}
	}
	return p, nil
}

// layOut writes for each service of file a folder DIR/services/NAME with a file for each thing that a container engine would be
// told, one item a line:
//
//	image command env ip
//	hosts     lines of /etc/hosts: the service's own ones, then all services
//	mounts    SOURCE TARGET of each file or folder of the host
//	volumes   TARGET of each volume
//	secrets   SOURCE NAME
func layOut(ctx context.Context, file, dir string) error {
	p, err := loadCompose(ctx, file)
	if err != nil {
		return err
	}
	addresses, bits, err := addresses(p)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	names := p.ServiceNames()
	var everyone []string
	for _, name := range names {
		everyone = append(everyone, addresses[name].String()+" "+name)
	}
	for _, name := range names {
		s := p.Services[name]
		out := map[string][]string{
			"image": {s.Image}, "command": s.Command, "ip": {fmt.Sprintf("%s/%d", addresses[name], bits)},
			"env": environment(s), "hosts": append(s.ExtraHosts.AsList(" "), everyone...),
		}
		for i, line := range out["hosts"][:len(out["hosts"])-len(everyone)] { // "name address"
			host, address, _ := strings.Cut(line, " ")
			out["hosts"][i] = address + " " + host
		}
		for _, v := range s.Volumes {
			if v.Type == types.VolumeTypeBind {
				out["mounts"] = append(out["mounts"], v.Source+" "+v.Target)
			} else {
				out["volumes"] = append(out["volumes"], v.Target)
			}
		}
		for _, secret := range s.Secrets {
			out["secrets"] = append(out["secrets"], p.Secrets[secret.Source].File+" "+secret.Source)
		}
		if err := write(filepath.Join(dir, "services", name), out); err != nil {
			return err
		}
	}
	return nil
}

func environment(s types.ServiceConfig) []string {
	var env []string
	for key, value := range s.Environment {
		env = append(env, key+"="+*value)
	}
	slices.Sort(env)
	return env
}

// addresses gives each service its fixed address, or one from the upper half of the network.
func addresses(p *types.Project) (map[string]netip.Addr, int, error) {
	network := netip.MustParsePrefix("172.30.77.0/24")
	if n := p.Networks["default"]; n.Ipam.Config != nil {
		var err error
		if network, err = netip.ParsePrefix(n.Ipam.Config[0].Subnet); err != nil {
			return nil, 0, err
		}
	}
	out := map[string]netip.Addr{}
	free := network.Addr()
	for range 128 {
		free = free.Next()
	}
	for _, name := range p.ServiceNames() {
		fixed := ""
		if n := p.Services[name].Networks["default"]; n != nil {
			fixed = n.Ipv4Address
		}
		if fixed == "" {
			out[name], free = free, free.Next()
			continue
		}
		a, err := netip.ParseAddr(fixed)
		if err != nil || !network.Contains(a) {
			return nil, 0, fmt.Errorf("%s: the address %q is not in %v", name, fixed, network)
		}
		for other, taken := range out {
			if taken == a {
				return nil, 0, fmt.Errorf("%s and %s have the same address %v", name, other, a)
			}
		}
		out[name] = a
	}
	return out, network.Bits(), nil
}

func write(dir string, files map[string][]string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, lines := range files {
		text := strings.Join(lines, "\n")
		if text != "" {
			text += "\n"
		}
		if strings.Count(text, "\n") != len(lines) {
			return fmt.Errorf("%s: %s: a value of several lines", dir, name)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}
