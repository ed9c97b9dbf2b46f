// Command fairlead-opa is OPA with a plugin that answers API servers.
//
// OPA by itself reads and parses the body of a request before it evaluates its authz policy, and serves as many requests
// at once as arrive. So anyone who reaches its port could exhaust its memory without a token. The plugin listens on the
// port that others reach. It checks the size of each body before anything parses it, decides about a few reviews at a
// time, with callers taking turns, and hands every other request to OPA's own API, behind OPA's authz policy. It knows no
// token.
//
// All else is OPA: `fairlead-opa run`, `test`, `eval` and so on are OPA's commands. The plugin runs only if OPA's
// configuration has `plugins.fairlead` (see `configuration`).
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/open-policy-agent/opa/cmd"
	"github.com/open-policy-agent/opa/v1/runtime"
)

// version is set when the program is built.
var version = "unknown"

func main() {
	if len(os.Args) == 2 && os.Args[1] == "--version" {
		fmt.Println("fairlead-opa", version)
		return
	}
	runtime.RegisterPlugin(pluginName, factory{})
	runtime.RegisterHook(shared)
	err := cmd.Command(nil, "OPA").Execute()
	if exit, isExit := errors.AsType[*cmd.ExitError](err); isExit {
		os.Exit(exit.Exit)
	}
	if err != nil {
		os.Exit(1)
	}
}
