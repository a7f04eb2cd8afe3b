// The CSI driver of the test cluster, shaped like a cloud block store: a volume is
// a disk image (ext4) in a directory that all nodes share, attached to one node
// at a time, and mounted there through a loop device. Snapshots and clones are
// (reflink) copies of the image.
//
//	-mode controller  once per cluster: create, attach, snapshot, expand
//	-mode node        on every node: mount; registers itself with kubelet
//
// Detaching a volume that its node still has mounted is a forced detach: the
// image is replaced by a copy taken at that moment, so whatever the old node
// writes from then on (or had not flushed) never reaches the volume.
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	reg "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// serve answers at a Unix socket until the process ends.
func serve(sock string, f func(*grpc.Server)) {
	_ = os.MkdirAll(filepath.Dir(sock), 0o755)
	_ = os.Remove(sock)
	l, err := net.Listen("unix", sock)
	if err != nil {
		log.Fatal(err)
	}
	s := grpc.NewServer(grpc.UnaryInterceptor(logged))
	f(s)
	go func() { log.Fatal(s.Serve(l)) }()
}

// logged logs what changes something, and whatever fails.
func logged(ctx context.Context, q any, i *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
	start := time.Now()
	r, err := h(ctx, q)
	method := filepath.Base(i.FullMethod)
	asks := method == "Probe" || strings.Contains(method, "Get") || strings.Contains(method, "List")
	if err != nil || !asks {
		log.Printf("%s %dms err=%v", i.FullMethod, time.Since(start).Milliseconds(), err)
	}
	return r, err
}

func main() {
	d := &driver{}
	mode := flag.String("mode", "", "controller or node")
	sock := flag.String("socket", "", "CSI socket of the controller")
	kubelet := flag.String("kubelet-dir", "/var/lib/kubelet", "")
	flag.StringVar(&d.name, "driver", "hostpath.csi.testcluster", "")
	flag.StringVar(&d.node, "node", "", "name of this node")
	flag.StringVar(&d.dir, "data-dir", "", "directory shared by all nodes")
	flag.Parse()
	d.end = *sock
	switch *mode {
	case "controller":
		for _, s := range []string{"volumes", "snapshots"} {
			if err := os.MkdirAll(filepath.Join(d.dir, s), 0o755); err != nil {
				log.Fatal(err)
			}
		}
		if err := d.load(); err != nil {
			log.Fatal(err)
		}
	case "node":
		d.end = filepath.Join(*kubelet, "plugins", d.name, "csi.sock")
		serve(filepath.Join(*kubelet, "plugins_registry", d.name+"-reg.sock"), func(s *grpc.Server) { reg.RegisterRegistrationServer(s, d) })
	default:
		log.Fatal("-mode controller or -mode node")
	}
	serve(d.end, func(s *grpc.Server) {
		csi.RegisterIdentityServer(s, d)
		csi.RegisterControllerServer(s, d)
		csi.RegisterNodeServer(s, d)
	})
	log.Printf("%s: serving %s at %s", *mode, d.name, d.end)
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTERM, syscall.SIGINT)
	<-c
}
