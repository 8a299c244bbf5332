/**
 * Test container: a pod's manifest → its container, really run: with Linux namespaces as runc would, or with gVisor's runsc.
 * Comes in: a pod. Goes out: a process to wait for, and commands in it. For the tests beside this file; both need root.
 * The container holds what the manifest says: user, command, folder, volumes with their sizes, a read-only root, no network.
 */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Pod } from "kubernetes-types/core/v1.js";

/** A container that runs. */
export interface Container {
  /** Its exit code, once its first process has ended. */
  readonly ended: Promise<number>;
  exec(command: readonly string[]): ChildProcess;
  kill(): void;
}

/** Runs a pod's one container. */
export type Runtime = (pod: Pod, options: { network: "none" | "open" }) => Promise<Container>;

interface Spec {
  readonly command: readonly string[];
  readonly user: number;
  readonly group: number;
  readonly folder: string;
  readonly volumes: readonly { readonly path: string; readonly bytes: number }[];
}

function specOf(pod: Pod): Spec {
  const container = pod.spec?.containers[0];
  const { runAsUser = 0, runAsGroup = 0 } = pod.spec?.securityContext ?? {};
  return {
    command: container?.command ?? [],
    user: runAsUser,
    group: runAsGroup,
    folder: container?.workingDir ?? "/",
    volumes: (container?.volumeMounts ?? []).map(({ name, mountPath }) => {
      const size = pod.spec?.volumes?.find((volume) => volume.name === name)?.emptyDir?.sizeLimit ?? "1Mi";
      return { path: mountPath, bytes: Number(size.replace("Mi", "")) * 1024 * 1024 };
    }),
  };
}

const ROOT_LINKS = ["bin", "lib", "lib64", "sbin"].filter((name) => existsSync(`/usr/${name}`));

/** Linux namespaces, made by bubblewrap, without a user namespace of the container's own: as containers usually are. */
export const namespaces: Runtime = async (pod, { network }) => {
  const { command, user, group, folder, volumes } = specOf(pod);
  const as = ["setpriv", `--reuid=${user}`, `--regid=${group}`, "--clear-groups", "--no-new-privs"];
  const become = [...as, "--inh-caps=-all", "--bounding-set=-all", "--"];
  const words = [
    ...["--unshare-pid", "--unshare-ipc", "--unshare-uts", ...(network === "none" ? ["--unshare-net"] : [])],
    ...["--die-with-parent", "--as-pid-1", "--hostname", "sandbox", "--clearenv", "--setenv", "PATH", "/usr/bin:/bin"],
    ...["--cap-add", "ALL", "--ro-bind", "/usr", "/usr"],
    ...ROOT_LINKS.flatMap((name) => ["--symlink", `usr/${name}`, `/${name}`]),
    ...["--proc", "/proc", "--dev", "/dev"],
    ...volumes.flatMap(({ path, bytes }) => ["--perms", "0777", "--size", String(bytes), "--tmpfs", path]),
    ...["--remount-ro", "/", "--chdir", folder, "--info-fd", "3", "--", ...become, ...command],
  ];
  const outer = spawn("bwrap", words, { stdio: ["ignore", "ignore", "inherit", "pipe"] });
  const ended = new Promise<number>((resolve) => outer.once("exit", (code) => resolve(code ?? 137)));
  let told = "";
  for await (const piece of outer.stdio[3] as NodeJS.ReadableStream) told += String(piece);
  const pid = String((JSON.parse(told) as { "child-pid": number })["child-pid"]);
  // Until then it is bubblewrap itself, whose mounts are not all made.
  const isMade = () => !/^(bwrap|setpriv)$/m.test(readFileSync(`/proc/${pid}/comm`, "utf8"));
  while (outer.exitCode === null && !isMade()) await new Promise((resolve) => setTimeout(resolve, 10));
  const enter = ["-t", pid, "--mount", "--pid", "--net", "--ipc", "--uts", `--wd=${folder}`, "--", ...become];
  return {
    ended,
    exec: (words) => spawn("nsenter", [...enter, ...words], { env: { PATH: "/usr/bin:/bin" } }),
    kill: () => {
      try {
        process.kill(Number(pid), "SIGKILL");
      } catch {
        // It has ended.
      }
    },
  };
};

const RUNSC = ["/usr/bin/runsc", "/usr/local/bin/runsc"].find((file) => existsSync(file)) ?? process.env.UPLIFT_RUNSC;

/** gVisor, where it is installed: a kernel of its own for the container. Undefined elsewhere. */
export const gvisor: Runtime | undefined = RUNSC === undefined ? undefined : (pod) => runGvisor(RUNSC, pod);

async function runGvisor(runsc: string, pod: Pod): Promise<Container> {
  const { command, user, group, folder, volumes } = specOf(pod);
  const home = mkdtempSync(join(tmpdir(), "runsc-"));
  const root = join(home, "rootfs");
  for (const name of ["proc", "usr", "dev", ...volumes.map(({ path }) => path)])
    mkdirSync(join(root, name), { recursive: true });
  chmodSync(home, 0o755);
  for (const name of ROOT_LINKS) symlinkSync(`usr/${name}`, join(root, name));
  const id = randomUUID();
  const process = {
    user: { uid: user, gid: group },
    args: command,
    cwd: folder,
    noNewPrivileges: true,
    capabilities: {},
  };
  const mounts = [
    { destination: "/proc", type: "proc", source: "proc" },
    { destination: "/usr", type: "bind", source: "/usr", options: ["ro", "rbind"] },
    ...volumes.map(({ path, bytes }) => ({
      ...{ destination: path, type: "tmpfs", source: "tmpfs", options: [`size=${bytes}`, "mode=0777"] },
    })),
  ];
  const kinds = ["pid", "network", "ipc", "uts", "mount"];
  const config = {
    ...{ ociVersion: "1.0.0", hostname: "sandbox", root: { path: "rootfs", readonly: true }, mounts },
    process: { ...process, env: ["PATH=/usr/bin:/bin"] },
    linux: { namespaces: kinds.map((type) => ({ type })) },
  };
  writeFileSync(join(home, "config.json"), JSON.stringify(config));
  const flags = ["--root", join(home, "state"), "--network=none", "--ignore-cgroups", "--platform=ptrace"];
  const outer = spawn(runsc, [...flags, "run", "-bundle", home, id], { stdio: ["ignore", "ignore", "inherit"] });
  const ended = new Promise<number>((resolve) => outer.once("exit", (code) => resolve(code ?? 137)));
  const isUp = (): boolean => {
    try {
      return execFileSync(runsc, [...flags, "state", id], { stdio: ["ignore", "pipe", "ignore"] }).includes(
        '"running"',
      );
    } catch {
      return false; // Not known yet.
    }
  };
  while (!isUp() && outer.exitCode === null) await new Promise((resolve) => setTimeout(resolve, 50));
  void ended.then(() => rmSync(home, { recursive: true, force: true }));
  return {
    ended,
    exec: (words) => spawn(runsc, [...flags, "exec", "-user", `${user}:${group}`, "-cwd", folder, id, ...words]),
    kill: () => {
      spawn(runsc, [...flags, "kill", id, "KILL"], { stdio: "ignore" });
    },
  };
}
